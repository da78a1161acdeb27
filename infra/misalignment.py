"""Where a stack's numbers do not fit together: in the stack's own words, with a change that has been tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from infra.alignment import Plans, align, known
from infra.instance_size import cpus_for, mebibytes, memory_for
from infra.run_memory import RUN_MEMORY_MIN, SERVICE_MEMORY, most_runs, run_memory
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from runtime.contract import timeouts
from runtime.contract.alignment import Alignment, Finding

_DAMAGE: Final[Mapping[str, str]] = {
    "T03": "the end of a run would be cut off before its result is recorded",
    "T07": "a live delivery would lose its claim, and its work would be done twice",
    "T08": "a late delivery would work a message again that is done",
    "T09": "the broker would give a message up before every allowed attempt could work",
    "T10": "messages and runs would be dropped while the broker still tries",
    "T12": "work would stop when the broker hangs up, or its redelivery would find no room",
    "T17": "a caller would be cut off although the run goes on and would have answered",
    "backoff": "Pub/Sub would refuse the subscription",
    **{
        f"{section}-{rule}": "the platform would refuse the service"
        for section in ("worker", "api", "executor")
        for rule in ("instances", "memory")
    },
    **{
        f"{section}-run-memory": "jobs would end for want of memory, or the instance would and all its runs with it"
        for section in ("worker", "executor")
    },
    "retention": "a record would go while its run can still be worked, and the run would be forgotten",
}

_FIELDS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "request_env": (("worker", "request_timeout"),),
    "service_timeout": (("worker", "request_timeout"),),
    "ack_env": (("worker", "request_timeout"),),
    "ack_subscription": (("worker", "request_timeout"),),
    "process": (("worker", "run_timeout"), ("worker", "request_timeout")),
    "run": (("worker", "run_timeout"),),
    "heartbeat": (("worker", "heartbeat"),),
    "stale_after": (("worker", "stale_after"), ("worker", "heartbeat")),
    "run_lease": (("worker", "stale_after"), ("worker", "heartbeat")),
    "claim_retention": (("worker", "claim_retention"),),
    "message_retention": (("worker", "message_retention"),),
    "max_queue_age": (("worker", "message_retention"),),
    "job_token_life": (("worker", "message_retention"),),
    "ceiling": (("worker", "max_attempts"),),
    "broker_env": (("worker", "max_attempts"), ("worker", "stale_after")),
    "broker_attempts": (("worker", "max_attempts"), ("worker", "stale_after")),
    "min_backoff": (("worker", "minimum_backoff"),),
    "max_backoff": (("worker", "maximum_backoff"),),
    "max_instances": (("worker", "max_instances"),),
    "concurrency": (("worker", "concurrency"),),
    "executor_concurrency": (("executor", "concurrency"),),
    "api_timeout": (("api", "request_timeout"),),
    "api_request_env": (("api", "request_timeout"),),
    "sync_wait": (("executor", "run_timeout"),),
    "executor_run": (("executor", "run_timeout"),),
    "executor_timeout": (("executor", "run_timeout"),),
    "run_retention": (("api", "run_retention"),),
    **{
        f"{section}_{fact}": ((section, field),)
        for section in ("worker", "api", "executor")
        for fact, field in (("min", "min_instances"), ("max", "max_instances"), ("cpu", "cpu"), ("memory", "memory"))
    },
}
"""Fact -> the settings that it is, or follows from."""

Setting = tuple[str, str]
"""Section and field."""


@dataclass(frozen=True, slots=True)
class Change:
    """A value for one setting; None leaves its key out."""

    setting: Setting
    value: int | str | None


@dataclass(frozen=True, slots=True)
class Misalignment:
    """A rule that a stack's numbers do not satisfy.

    Attributes:
        rule_id: the rule, `T01` to `T17`, or a word for a rule that only a stack has.
        given: the settings that have a part in it and their values, as the stack file spells them.
        rule: what must hold.
        damage: what would go wrong.
        facts: the numbers that the rule compared, given and derived.
        passing: changes with which the rule holds; more than one where no single change is enough.
    """

    rule_id: str
    given: Mapping[Setting, int | str]
    rule: str
    damage: str
    facts: Mapping[str, object]
    passing: tuple[Change, ...]


def misalignments(plans: Plans) -> list[Misalignment]:
    """Every rule that does not hold, in the order of the rules; once where two facts follow from one setting."""
    described = [_described(found, plans) for found in _findings(plans)]
    return list({(found.rule_id, found.passing): found for found in reversed(described)}.values())[::-1]


def _findings(plans: Plans) -> Iterator[Finding]:
    facts = align(plans)
    yield from timeouts.check(facts)
    yield from _stack_rules(plans, facts)


def _stack_rules(plans: Plans, facts: Alignment) -> Iterator[Finding]:
    """What only a stack can get wrong: services and subscriptions have no second number to compare with."""
    kept, queue_age = _spelled(plans.api.run_retention), known(facts.max_queue_age)
    shortest, longest = known(facts.min_backoff), known(facts.max_backoff)
    if kept < queue_age:
        rule = "a run's record must be kept for as long as the run may be queued"
        yield Finding("retention", ("run_retention", "max_queue_age"), (kept, queue_age), rule, queue_age)
    if shortest > longest:
        rule = "the shortest pause must not be longer than the longest"
        yield Finding("backoff", ("min_backoff", "max_backoff"), (shortest, longest), rule, longest)
    for section, plan in (("worker", plans.worker), ("api", plans.api), ("executor", plans.executor)):
        if plan is not None and plan.min_instances > plan.max_instances:
            rule = "no more instances can always be there than may be there at most"
            names, values = (f"{section}_min", f"{section}_max"), (plan.min_instances, plan.max_instances)
            yield Finding(f"{section}-instances", names, values, rule, plan.max_instances)
        if plan is not None:
            yield from _size_rules(section, plan)
    if plans.entry_points:
        yield from _run_memory_rules(plans)


def _size_rules(section: str, plan: WorkerPlan | ApiPlan | ExecutorPlan) -> Iterator[Finding]:
    cpu, memory = (f"{section}_cpu", plan.cpu), (f"{section}_memory", plan.memory)
    least, fewest = memory_for(int(plan.cpu)), cpus_for(plan.memory)
    if mebibytes(plan.memory) < mebibytes(least):
        names, values = zip(memory, cpu, strict=True)
        yield Finding(f"{section}-memory", names, values, f"{plan.cpu} CPUs must have at least {least}", least)
    if int(plan.cpu) < fewest:
        names, values = zip(cpu, memory, strict=True)
        rule = f"{plan.memory} must have at least {fewest} CPUs"
        yield Finding(f"{section}-memory", names, values, rule, str(fewest))


def _run_memory_rules(plans: Plans) -> Iterator[Finding]:
    """The processes of all runs at once fit into their instance, beside the service: else one run ends the others."""
    for section, plan in (("worker", plans.worker), ("executor", plans.executor)):
        if plan is not None and run_memory(plan.memory, plan.concurrency) < RUN_MEMORY_MIN:
            names = ("concurrency" if section == "worker" else "executor_concurrency", f"{section}_memory")
            rule = f"with {SERVICE_MEMORY} MiB for the service, each run must have at least {RUN_MEMORY_MIN} MiB"
            yield Finding(f"{section}-run-memory", names, (plan.concurrency, plan.memory), rule, most_runs(plan.memory))


def _described(found: Finding, plans: Plans) -> Misalignment:
    involved = list(dict.fromkeys(setting for fact in found.settings for setting in _FIELDS.get(fact, ())))
    values = {setting: _value(plans, setting) for setting in involved}
    return Misalignment(
        rule_id=found.id,
        given={setting: value for setting, value in values.items() if value is not None},
        rule=found.rule,
        damage=_DAMAGE[found.id],
        facts=dict(zip(found.settings, found.values, strict=True)),
        passing=_passing(found, plans, involved),
    )


def _passing(found: Finding, plans: Plans, involved: list[Setting]) -> tuple[Change, ...]:
    """The first change, or the first set of them, that makes the rule hold and breaks no other."""
    defaults = tuple(Change(setting, _default(plans, setting)) for setting in involved)
    proposals = [(Change(involved[0], found.passing),)] if isinstance(found.passing, int | str) else []
    proposals += [(change,) for change in defaults]
    before = {finding.id for finding in _findings(plans)}
    for proposal in proposals:
        changed = _changed(plans, proposal)
        if changed is not None and {finding.id for finding in _findings(changed)} <= before - {found.id}:
            return proposal
    return defaults


def _changed(plans: Plans, changes: tuple[Change, ...]) -> Plans | None:
    """The plans with changes applied; None where a value is outside its setting's own range."""
    for change in changes:
        section, field = change.setting
        plan = getattr(plans, section)
        values = {**plan.model_dump(by_alias=False), field: change.value}
        spelled = {
            str(info.validation_alias or name): _spelled(values[name])
            for name, info in type(plan).model_fields.items()
            if values[name] is not None
        }
        try:
            plans = replace(plans, **{section: type(plan).model_validate(spelled)})
        except ValueError:
            return None
    return plans


def _value(plans: Plans, setting: Setting) -> int | str | None:
    spelled = _spelled(getattr(getattr(plans, setting[0]), setting[1]))
    return spelled if isinstance(spelled, int | str) else None


def _default(plans: Plans, setting: Setting) -> int | str | None:
    spelled = _spelled(type(getattr(plans, setting[0])).model_fields[setting[1]].default)
    return spelled if isinstance(spelled, int | str) else None


def _spelled(value: Any) -> Any:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value
