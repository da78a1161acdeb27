"""Every account has the grants of the table and no other, in each stack of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandbox.stack_file import read_stack_file
from sandbox.world import MEMBER_TYPES
from tests.support.grant_table import OF_KEY, expected, granted
from tests.support.real_engine import ROOT, embedded
from tests.support.stacks import WHOLE, realised

STACKS = sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("stack", STACKS)
def test_the_grants_of_a_stack_are_exactly_the_table(tmp_path: Path, stack: str) -> None:
    """BR-55: both dead-letter grants, by the project's number. BR-121: members only."""
    given = {key.partition(":")[2] for key in read_stack_file(ROOT / f"Pulumi.{stack}.yaml")}
    deployed = embedded(tmp_path, stack)

    assert granted(deployed.world) == expected(given & OF_KEY.keys())
    iam = {one.type for one in deployed.registrations if re.search("iam(member|binding|policy)", one.type, re.I)}
    assert iam <= MEMBER_TYPES.keys()


def test_the_grants_of_a_stack_with_everything_are_the_whole_table(tmp_path: Path) -> None:
    assert granted(realised(tmp_path, **WHOLE).world) == expected(OF_KEY)


def test_the_grants_follow_the_names_of_a_stack(tmp_path: Path) -> None:
    deployed = realised(tmp_path, name_prefix="blue", executor={})
    assert granted(deployed.world) == expected(["executor"], "blue")


def test_a_worker_that_checks_tokens_itself_has_no_invoker(tmp_path: Path) -> None:
    """Mode and infrastructure are one setting."""
    deployed = realised(tmp_path, worker={"push_auth": "in_process"})
    assert granted(deployed.world) == {row for row in expected([]) if row[1] != "run.invoker"}


def test_traces_that_go_elsewhere_need_no_grant(tmp_path: Path) -> None:
    deployed = realised(tmp_path, traces_endpoint="https://traces.example:4317")
    assert granted(deployed.world) == expected([])
