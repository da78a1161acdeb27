"""A stack's exported state, and what the policy pack finds in it without program and provider."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

from sandbox.engine.command import PulumiCommand
from sandbox.engine.engine_events import EngineEvents
from sandbox.engine.engine_state import EngineState
from sandbox.engine.judgement import violations
from sandbox.engine.pulumi_cli import PulumiEngine
from sandbox.engine.violation import Violation
from tests.support.real_engine import ROOT, binary

State = dict[str, Any]

BROKEN: Mapping[str, tuple[tuple[str | int, ...], Any]] = {
    "Service::execution-service": (("template", "timeout"), "601s"),
    "Subscription::execution-push": (("ackDeadlineSeconds",), 60),
    "Subscription::execution-dead-letters": (("expirationPolicy", "ttl"), "2678400s"),
    "Service::api-service": (("template", "containers", 0, "image"), "holdfast/runtime:latest"),
}
"""Type and logical name -> path of a property, and a value that does not hold."""


def exported(built: PulumiEngine) -> State:
    """`pulumi stack export`."""
    state: State = json.loads(_command(built).demand("stack", "export", "--stack", built.stack))
    return state


def broken(state: State) -> State:
    """The same state with what BROKEN says."""
    changed = copy.deepcopy(state)
    for row in changed["deployment"]["resources"]:
        path, value = BROKEN.get(row["urn"].rpartition("/")[2].partition(":")[2], ((), None))
        for values in (row["inputs"], row["outputs"]) if path else ():
            reduce(getitem, path[:-1], values)[path[-1]] = value
    return changed


def analysed(built: PulumiEngine, state: State) -> list[Violation]:
    """What `pulumi policy analyze --file` finds."""
    path = built.home.root / "exported.json"
    path.write_text(json.dumps(state))
    options = ("--file", str(path), "--policy-pack", str(ROOT / "policies/run"), "--json")
    done = _command(built).run("policy", "analyze", *options)
    events = EngineEvents.read(done.stdout)
    assert (done.returncode != 0) is any(one.mandatory for one in events.violations), done.stderr
    return sorted(events.violations, key=str)


def judged(state: State) -> list[Violation]:
    """What the rules find in the registrations of a state."""
    return sorted(violations(EngineState.read(state["deployment"]).registrations()), key=str)


def _command(built: PulumiEngine) -> PulumiCommand:
    return PulumiCommand(binary(), built.home)
