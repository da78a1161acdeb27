"""What the real engine tells while it works."""

from __future__ import annotations

from typing import Any

from pulumi.automation.events import EngineEvent

from sandbox.engine.engine_events import EngineEvents, Step
from sandbox.world import TOPIC

URN = f"urn:pulumi:test::holdfast::holdfast:infra:JobTopic${TOPIC}::jobs"
STACK = "urn:pulumi:test::holdfast::pulumi:pulumi:Stack::holdfast-test"


def told(**event: Any) -> EngineEvents:
    """After one event."""
    events = EngineEvents()
    events(EngineEvent.from_json({"sequence": 1, "timestamp": 1, **event}))
    return events


def test_steps_are_those_of_the_platforms_resources() -> None:
    step = {"op": "update", "urn": URN, "type": TOPIC, "provider": "", "diffs": ["labels"]}
    component = {"op": "create", "urn": STACK, "type": "pulumi:pulumi:Stack", "provider": ""}

    assert told(resOutputsEvent={"metadata": step}).steps == [Step("update", URN, ("labels",))]
    assert told(resOutputsEvent={"metadata": component}).steps == []
    assert told(resOutputsEvent={"metadata": step}).urns({"update"}) == (URN,)


def test_an_error_is_a_line_without_colours_and_a_resources_names_it() -> None:
    message = {"message": "<{%reset%}>first\nsecond<{%reset%}>\n", "color": "raw", "severity": "error"}

    assert told(diagnosticEvent=message).errors == ["first", "second"]
    assert told(diagnosticEvent={**message, "urn": STACK}).errors == ["first", "second"]
    assert told(diagnosticEvent={**message, "urn": URN}).errors == [f"jobs ({TOPIC}): first", f"jobs ({TOPIC}): second"]
    assert told(diagnosticEvent={**message, "severity": "warning"}).warnings == ["first", "second"]
    assert told(diagnosticEvent={**message, "severity": "info#err"}).errors == []


def test_a_policys_finding_names_its_resource_and_itself() -> None:
    finding = {
        "message": "<{%reset%}>too long<{%reset%}>",
        "color": "raw",
        "policyName": "T06",
        "policyPackName": "holdfast",
        "policyPackVersion": "1",
        "policyPackVersionTag": "1",
        "enforcementLevel": "mandatory",
        "resourceUrn": URN,
    }
    (violation,) = told(policyEvent=finding).violations

    assert str(violation) == f"jobs ({TOPIC}): too long [policy T06]"
    assert violation.mandatory
    described = {**finding, "message": "Deadlines cover requests.\nT06: too short. Raise it."}
    assert str(told(policyEvent=described).violations[0]) == f"jobs ({TOPIC}): T06: too short. Raise it."
    assert not told(policyEvent={**finding, "enforcementLevel": "advisory"}).violations[0].mandatory


def test_the_engines_own_words_around_a_fault_are_left_out() -> None:
    def faults(*messages: str) -> list[str]:
        events = EngineEvents()
        for number, message in enumerate(messages):
            diagnostic = {"message": message, "color": "raw", "severity": "error", "urn": URN if number == 0 else STACK}
            events(EngineEvent.from_json({"sequence": number, "timestamp": 1, "diagnosticEvent": diagnostic}))
        return events.faults

    checked = f"{TOPIC} resource 'jobs': property a.b value {{[1\n2]}} has a problem: too much"
    assert faults(checked, "update failed") == [f"jobs ({TOPIC}): a.b: too much"]
    assert faults(f"{TOPIC} resource 'jobs' has a problem: refused") == [f"jobs ({TOPIC}): refused"]
    assert faults("boom", "boom2", "an unhandled error occurred: boom2") == [f"jobs ({TOPIC}): boom", "boom2"]
