"""Whatever a stack says: what the contract refuses of its settings, the pack refuses of its resources."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.alignment import Plans
from infra.misalignment import misalignments
from infra.sections.api import ApiPlan
from infra.sections.executor import ExecutorPlan
from infra.sections.worker import WorkerPlan
from infra.settings import StackSettings
from policies.resource import SCHEDULER_JOB, SERVICE, SUBSCRIPTION
from policies.rules import RULES
from tests.support.plain_rendering import rendered_plainly
from tests.support.policy_programs import STACK, Program, of_registrations
from tests.support.stacks import loaded, realised

TIMEOUTS: Final = [rule for rule in RULES if rule.id.startswith("T")]
FOLLOW: Final = {"T01", "T02", "T04", "T05", "T06", "T11", "T13", "T14", "T15", "T16"}
"""What settings cannot get wrong: these facts are derived from others, or fixed."""


def near(*values: int) -> st.SearchStrategy[int]:
    """These values, and those beside them."""
    return st.sampled_from([value + step for value in values for step in (-1, 0, 1)])


WORKER: Final = {
    "request_timeout_seconds": near(61, 300, 600, 900, 3599),
    "run_timeout_seconds": near(2, 240, 540, 840, 3539),
    "heartbeat_seconds": near(6, 30, 60, 599),
    "stale_after_seconds": near(31, 90, 180, 570, 600, 3599),
    "max_attempts": near(2, 3, 10, 99),
    "minimum_backoff_seconds": near(1, 10, 60),
    "maximum_backoff_seconds": near(60, 599),
    "message_retention_seconds": near(601, 24_000, 86_400, 604_799),
    "claim_retention_seconds": near(3601, 86_400, 604_799),
    "concurrency": near(2, 80),
    "max_instances": near(2, 99),
    "push_auth": st.sampled_from(["platform", "in_process"]),
}
API: Final = {"request_timeout_seconds": near(61, 600, 3570, 3599)}
EXECUTOR: Final = {"run_timeout_seconds": near(2, 540, 3540, 3569)}


LONG: Final = {"request_timeout_seconds": 3600, "run_timeout_seconds": 3540}
"""A worker whose requests outlast the broker's patience."""


def section(fields: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """A section with some of its keys: few are wrong at a time, or every rule would be broken always."""
    names = st.sets(st.sampled_from(sorted(fields)), max_size=most)
    return names.flatmap(lambda some: st.fixed_dictionaries({name: fields[name] for name in sorted(some)}))


def worker(base: dict[str, int], changes: dict[str, Any]) -> WorkerPlan:
    """A worker's section, valid by itself."""
    return WorkerPlan.model_validate({**base, **changes})


PLANS: Final = st.builds(
    Plans,
    st.builds(worker, st.sampled_from([{}, LONG]), section(WORKER, 4)),
    section(API, 1).map(ApiPlan.model_validate),
    st.none() | section(EXECUTOR, 1).map(ExecutorPlan.model_validate),
)


def with_plans(base: StackSettings, plans: Plans) -> StackSettings:
    """The stack with other sections, past everything that refuses them."""
    return base.model_copy(update={"worker": plans.worker, "api": plans.api, "executor": plans.executor})


def test_the_pack_finds_in_the_resources_what_the_contract_finds_in_the_settings() -> None:
    """BR-45"""
    base, reached = loaded(), Counter[str]()

    @settings(max_examples=500, deadline=None)
    @given(PLANS)
    def agree(plans: Plans) -> None:
        said = {found.rule_id for found in misalignments(plans) if found.rule_id.startswith("T")}
        reached.update(said or {"none"})
        assert rendered_plainly(with_plans(base, plans)).broken(rules=TIMEOUTS) == said

    agree()
    assert reached.keys() == {"none", *(rule.id for rule in TIMEOUTS)} - FOLLOW, reached


@given(PLANS.filter(lambda plans: not misalignments(plans)))
def test_whatever_a_stack_says_its_resources_break_no_rule(plans: Plans) -> None:
    assert rendered_plainly(with_plans(loaded(), plans)).broken() == set()


def test_what_is_rendered_without_an_engine_is_what_the_engine_is_given(tmp_path: Path) -> None:
    """In every property of the services, of their subscriptions, and of what calls them."""

    def compared(program: Program) -> dict[str, dict[str, Any]]:
        kept = {SERVICE, SUBSCRIPTION, SCHEDULER_JOB}
        return {key: each.inputs for key, each in program.declared.items() if each.type in kept}

    deployed = of_registrations(realised(tmp_path, executor={}).registrations, STACK)
    assert compared(rendered_plainly(loaded(executor={}))) == compared(deployed)
