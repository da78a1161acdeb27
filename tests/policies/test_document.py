"""The page of the rules is what the rules say."""

from __future__ import annotations

import json
from pathlib import Path

from policies.document import page
from policies.rules import RULES
from tests.support.policy_programs import CONFIGURATION

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs/policies.md").read_text()
    assert written == page(), "run `python -m policies.document`"


def test_the_projects_configuration_is_the_one_that_the_tests_use() -> None:
    assert json.loads((ROOT / "policies/holdfast.json").read_text()) == CONFIGURATION


def test_ids_are_unique_and_every_rule_says_why_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) >= 40
    for rule in RULES:
        for text in (rule.summary, rule.breaks, rule.fix):
            assert text, rule.id
            assert not text.endswith("."), rule.id
