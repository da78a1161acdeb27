"""Cloud Scheduler jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings, account_missing
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, lasts, matches
from sandbox.world import SCHEDULER_JOB, World

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,500}", re.ASCII)
_CRON: Final = re.compile(r"\S+(?: +\S+){4}")
_ADDRESS: Final = re.compile(r"https?://[^\s/]+(?:/\S*)?")
_TARGETS: Final = ("httpTarget", "pubsubTarget", "appEngineHttpTarget")


def _named(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _defaults(inputs: Inputs) -> dict[str, Any]:
    filled = {"timeZone": "Etc/UTC", "paused": False, **inputs}
    if "httpTarget" in inputs:
        filled = {"attemptDeadline": "180s", **filled}
        filled["httpTarget"] = {"httpMethod": "POST", **inputs["httpTarget"]}
        if token := at(inputs, "httpTarget.oidcToken"):
            filled["httpTarget"]["oidcToken"] = {"audience": inputs["httpTarget"]["uri"], **token}
    return filled


def _rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, "1 to 500 letters, digits, hyphens and underscores")
    if inputs.get("schedule") is None:
        yield Failure("schedule", "is missing; a job needs one, like '* * * * *'")
    yield from matches(inputs, "schedule", _CRON, "five cron fields, like '* * * * *'")
    yield from lasts(inputs, "attemptDeadline", 15, 1800)
    yield from matches(inputs, "httpTarget.uri", _ADDRESS, "an http or https address")
    if len([target for target in _TARGETS if inputs.get(target)]) != 1:
        yield Failure("httpTarget", f"exactly one of {', '.join(_TARGETS)} is needed")


def _missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    if email := at(inputs, "httpTarget.oidcToken.serviceAccountEmail"):
        yield from account_missing(email, "httpTarget.oidcToken.serviceAccountEmail", world)


def _computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    state = "PAUSED" if inputs["paused"] else "ENABLED"
    return {"id": f"projects/{inputs['project']}/locations/{inputs['region']}/jobs/{name}", "state": state}


BEHAVIOURS: Final = {
    SCHEDULER_JOB: Behaviour(
        name=_named,
        auto_name="name",
        computed=_computed,
        defaults=_defaults,
        rules=_rules,
        missing=_missing,
        immutable=frozenset({"name", "region", "project"}),
    )
}
