"""What the operations guide has to say because of what the program declares.

Its offline commands are run, in order, by tests/deploy/real_engine/test_operations_guide.py.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.contract.settings import tracing
from sandbox.engine.deployment import Deployment
from sandbox.world import SUBNET
from tests.support.stacks import WHOLE, realised

GUIDE: Final = Path(__file__).parents[2] / "docs" / "operations"
APIS: Final = {
    "artifactregistry": "artifactregistry",
    "cloudrunv2": "run",
    "cloudscheduler": "cloudscheduler",
    "compute": "compute",
    "dns": "dns",
    "firestore": "firestore",
    "monitoring": "monitoring",
    "projects/iAMMember": "cloudresourcemanager",
    "projects/serviceIdentity": "serviceusage",
    "pubsub": "pubsub",
    "secretmanager": "secretmanager",
    "serviceaccount": "iam",
    "servicenetworking": "servicenetworking",
    "sql": "sqladmin",
    "storage": "storage",
}
"""Module of the SDK, or one of its types where they differ -> API that the provider calls."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    more: dict[str, Any] = {"alerts": {"emails": ["a@example.com"]}, "public_endpoint": {"domain": "jobs.example.com"}}
    return realised(tmp_path_factory.mktemp("stack"), **WHOLE, **more)


def enabled(page: str) -> set[str]:
    """The APIs that a page has somebody enable."""
    lines = re.findall(r"^gcloud services enable (.*)$", (GUIDE / page).read_text(), re.MULTILINE)
    return {name.removesuffix(".googleapis.com") for line in lines for name in line.split()}


def test_the_project_gets_every_api_that_the_program_or_a_service_calls(stack: Deployment) -> None:
    types = {one.type.split(":")[1] for one in stack.world}
    needed = {APIS.get(type_) or APIS[type_.partition("/")[0]] for type_ in types}

    assert needed == set(APIS.values()), "an API that nothing needs is left out of this table"
    assert needed <= enabled("first-deployment.md")
    assert WHOLE["traces_endpoint"] == tracing.GOOGLE
    assert {"telemetry", "cloudtrace"} <= enabled("first-deployment.md"), "the second keeps what the first receives"
    assert {"sts", "iamcredentials"} <= enabled("continuous-deployment.md"), "GitHub's tokens are exchanged by both"


def test_taking_down_says_what_google_keeps_in_use(stack: Deployment) -> None:
    """Cloud Run holds addresses of the subnet for one to two hours; Direct VPC egress, section on deleting a subnet."""
    (subnet,) = stack.world.of_type(SUBNET)
    page = (GUIDE / "take-down.md").read_text()
    destroying, removing = page.index("pulumi destroy"), page.index("pulumi stack rm")

    told = page[destroying:removing]
    assert f"`{subnet.urn.rpartition('::')[2]}`" in told
    assert "again after two hours" in told


def test_the_line_that_builds_the_command_puts_it_on_the_path(tmp_path: Path) -> None:
    """The very next line runs it."""
    lines = (GUIDE / "first-deployment.md").read_text().splitlines()
    (at,) = [number for number, line in enumerate(lines) if "make pulumi |" in line]
    assert lines[at + 1].startswith("pulumi login ")

    built = tmp_path / "cache" / "pulumi"
    built.parent.mkdir()
    make = tmp_path / "make"
    make.write_text(f"#!/bin/sh\necho 'Building pulumi (once; minutes)'\necho {built}\n")
    built.write_text("#!/bin/sh\n")
    for path in (make, built):
        path.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    script = f"{lines[at]}\ncommand -v pulumi"
    done = subprocess.run(["sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{built}\n"
