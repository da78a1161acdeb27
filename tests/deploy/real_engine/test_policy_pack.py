"""The policy pack beside the real engine: the dev stack passes, and for each rule one change to it does not.

The provider takes whatever it is given, so that what is refused is refused by the pack. Beside the stand-in, which
judges as well, the stacks pass in the tests of their lives.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from policies.rule import Level, Rule
from policies.rules import RULES
from tests.support.policy_mutations import MUTATIONS, Mutation
from tests.support.policy_programs import extended, rendered
from tests.support.previews import Previews, previews


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Previews]:
    with previews(tmp_path_factory.mktemp("previews")) as workspace:
        yield workspace


def breaking(rule: str) -> Mutation:
    """The first change that breaks a rule, and no other."""
    return next(mutation for mutation in MUTATIONS if mutation.rules == {rule})


def test_the_unchanged_stack_passes_without_a_finding(opened: Previews) -> None:
    assert opened.see(rendered()) == []
    assert opened.see(extended()) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_one_change_to_the_stack_is_found_under_its_rule_and_no_other(opened: Previews, rule: Rule) -> None:
    found = opened.see(breaking(rule.id).program())

    assert {one.policy for one in found} == {rule.id}
    own = [one for one in found if one.policy == rule.id]
    assert all(one.mandatory is (rule.level is Level.MANDATORY) for one in own)
    assert all(one.message.startswith(f"{rule.id}: ") and rule.fix in one.message for one in own)
