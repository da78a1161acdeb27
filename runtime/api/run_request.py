"""A caller's wish for a run, checked as a whole: every fault at once, and nothing stored before."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from runtime.api.fields import RUN_ID, RUN_ID_RULE, Fields
from runtime.api.json_value import canonical, decode, encode, faults_of, sha256_hex
from runtime.api.problem import FieldFault, Problem
from runtime.contract.limits import INLINE_PAYLOAD_BYTES
from runtime.contract.states import RunMode

MEMBERS: Final = (
    "run_id", "mode", "app_id", "engine", "flow", "input", "timeout_seconds", "wait_seconds", "max_attempts", "labels",
)  # fmt: skip
FLOW: Final = "flow"
"""The engine whose definition travels in the request."""
LABELS: Final = 32
"""Most labels of one run."""

_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LABEL_VALUE: Final = re.compile(r"[^\x00-\x1f\x7f]{0,256}")
_ENGINE: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")


class EngineCatalogue(Protocol):
    """What may be asked about engines before a run is accepted."""

    def names(self) -> Collection[str]:
        """The engines that workers of this deployment have."""
        ...

    def check(self, name: str, spec: Mapping[str, object]) -> list[tuple[str, str]]:
        """Faults of a definition as (JSON pointer into it, what is wrong). Pure, bounded."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRules:
    """What a run may ask for whose caller waits for it.

    Attributes:
        timeout_max: longest run, and the default.
        wait_max: longest wait for the result, and the default.
    """

    timeout_max: timedelta
    wait_max: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """What a deployment allows a run to ask for.

    Attributes:
        engines: known engines.
        timeout_max: longest queued run, and the default.
        max_attempts: most attempts, and the default; a run whose caller waits has one.
        waited: None where the deployment has no executor, so that every run is queued.
    """

    engines: EngineCatalogue
    timeout_max: timedelta
    max_attempts: int
    waited: WaitedRules | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A request without faults.

    Attributes:
        run_id: None where the caller leaves it to the API.
        mode: how the caller waits.
        wait: longest wait of a SYNC caller; of no meaning in the other modes.
        payload: JSON of `{"input": ..., "spec": ...}`; not its canonical form, in which a float such as 1e16 is
            written as an integer and would be read back as one.
        request_hash: equal for requests that ask for the same run; what the deployment fills in is left out, so that
            a changed default makes no repeated request a different one. So is the wait, which is the caller's.
    """

    run_id: str | None
    mode: RunMode
    app_id: str
    engine: str
    timeout: timedelta
    wait: timedelta
    max_attempts: int
    labels: Mapping[str, str]
    payload: bytes
    request_hash: str


def read_run_request(body: bytes, rules: RunRules) -> RunRequest:
    """Reads the body of `POST /v1/runs`.

    Raises:
        Problem: 400 `invalid_json`, 422 `invalid_request` with every fault, 413 `payload_too_large`,
            422 `mode_not_available`.
    """
    value = decode(body)
    faults = faults_of(value, exact=True)
    if faults:
        # A value that no two readers agree on is not looked into any further.
        raise _invalid(faults)
    fields = Fields(value, faults)
    fields.only(MEMBERS)
    run_id = fields.text("run_id", RUN_ID, RUN_ID_RULE)
    mode = fields.word("mode", RunMode) or RunMode.ASYNC
    app_id = fields.text("app_id", RUN_ID, RUN_ID_RULE) or "default"
    engine, spec = _engine(fields, rules.engines)
    waited = _waited(mode, rules)
    longest = _seconds(rules.timeout_max if waited is None else waited.timeout_max)
    most = rules.max_attempts if waited is None else 1
    timeout = fields.integer("timeout_seconds", 1, longest)
    max_attempts = fields.integer("max_attempts", 1, most)
    wait = _wait(fields, mode, waited)
    labels = _labels(fields, faults)
    if faults:
        raise _invalid(faults)
    definition = {"input": fields.raw("input"), "spec": spec}
    wanted = {
        "app_id": app_id,
        "engine": engine,
        "labels": labels,
        "max_attempts": max_attempts,
        "mode": mode.value,
        "payload_sha256": sha256_hex(_measured(definition)),
        "timeout_seconds": timeout,
    }
    return RunRequest(
        run_id=run_id,
        mode=mode,
        app_id=app_id,
        engine=engine,
        timeout=timedelta(seconds=timeout or longest),
        wait=wait,
        max_attempts=max_attempts or most,
        labels=labels,
        payload=encode(definition),
        request_hash=sha256_hex(canonical(wanted)),
    )


def _engine(fields: Fields, engines: EngineCatalogue) -> tuple[str, Mapping[str, object]]:
    fields.need("engine", "the name of an engine of this deployment")
    name = fields.text("engine", _ENGINE, "the name of an engine: lower case letters, digits and -")
    if name is not None and name not in engines.names():
        fields.fault(
            "engine", f"{name!r} is not an engine of this deployment; it has {', '.join(sorted(engines.names()))}"
        )
        return name, {}
    if name is None:
        return "", {}
    spec = fields.raw("flow")
    if name != FLOW:
        if spec is not None:
            fields.fault("flow", f"belongs to the engine `{FLOW}`; leave it out for {name!r}")
        return name, {}
    fields.need("flow", f"the graph that the engine `{FLOW}` runs")
    if spec is None:
        return name, {}
    if not isinstance(spec, dict):
        fields.fault("flow", "must be an object")
        return name, {}
    for place, detail in engines.check(name, spec):
        fields.fault_at(f"/flow{place}", detail)
    return name, spec


def _labels(fields: Fields, faults: list[FieldFault]) -> dict[str, str]:
    value = fields.raw("labels")
    if value is None:
        return {}
    labels = Fields(value, faults, ("labels",))
    if not isinstance(value, dict):
        return {}
    if len(value) > LABELS:
        labels.fault(None, f"has {len(value)} labels, at most {LABELS} are kept")
    for name, text in value.items():
        if _LABEL_NAME.fullmatch(name) is None:
            labels.fault(
                name, "a label's name must be 1 to 63 letters, digits, _ . or -, starting with a letter or digit"
            )
        if not isinstance(text, str) or _LABEL_VALUE.fullmatch(text) is None:
            labels.fault(name, "a label's value must be a string of at most 256 characters on one line")
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _wait(fields: Fields, mode: RunMode, waited: WaitedRules | None) -> timedelta:
    if mode is not RunMode.SYNC:
        if fields.has("wait_seconds"):
            fields.fault("wait_seconds", f"belongs to mode `sync`; leave it out for `{mode}`")
        return timedelta()
    longest = timedelta(seconds=1) if waited is None else waited.wait_max
    return timedelta(seconds=fields.integer("wait_seconds", 1, _seconds(longest)) or _seconds(longest))


def _seconds(duration: timedelta) -> int:
    return duration // timedelta(seconds=1)


def _waited(mode: RunMode, rules: RunRules) -> WaitedRules | None:
    """What a run whose caller waits may ask for; None for a queued one."""
    if mode is RunMode.ASYNC:
        return None
    if rules.waited is None:
        raise Problem(
            422,
            "mode_not_available",
            f"mode `{mode}` is served by the executor role, and this deployment has no executor; use mode `async` and "
            "follow the run's events, or deploy an executor",
            faults=[FieldFault("/mode", "must be `async` in this deployment")],
        )
    return rules.waited


def _measured(definition: Mapping[str, object]) -> bytes:
    """The RFC 8785 form, which counts and is hashed."""
    payload = canonical(definition)
    if len(payload) > INLINE_PAYLOAD_BYTES:
        raise Problem(
            413,
            "payload_too_large",
            f"the run's definition and input take {len(payload)} bytes, the limit is {INLINE_PAYLOAD_BYTES}; staging "
            "larger payloads is not available yet: put the data where the job can read it and pass its address",
            faults=[FieldFault("/input", "definition and input together are over the limit")],
            members={"limit_bytes": INLINE_PAYLOAD_BYTES, "size_bytes": len(payload)},
        )
    return payload


def _invalid(faults: list[FieldFault]) -> Problem:
    count = len(faults)
    return Problem(
        422,
        "invalid_request",
        f"the run was not accepted: {count} {'fault' if count == 1 else 'faults'}, each with its place in `errors`",
        faults=faults,
    )
