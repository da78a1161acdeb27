"""A process that must not serve says why, a line for each fault, and ends with 78.

Every row of the settings has its own test beside the settings; here it is the real process that is asked.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

import pytest

from runtime.process import EXIT_CONFIGURATION
from tests.support.local import ROOT
from tests.support.settings import api_env, worker_env

FAULTS: list[tuple[str, str, str]] = [
    ("HTTPS_PROXY", "", "forbidden_credential_setting"),
    ("PUBSUB_EMULATOR_HOST", "", "forbidden_endpoint_setting"),
    ("GCP_QUEUE_WORKLOAD", "none", "invalid_workload"),
    ("GCP_PROJECT_ID", "p", "invalid_project_id"),
    ("PUBSUB_PUSH_AUDIENCE", "http://x", "invalid_push_audience"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "someone@example.com", "invalid_push_service_account"),
    ("PORT", "0", "number_out_of_range"),
    ("GCP_QUEUE_ACK_DEADLINE_SECS", " 600", "invalid_number"),
    ("GCP_QUEUE_CLAIM_HEARTBEAT_SECS", "4", "number_out_of_range"),
    ("GCP_QUEUE_CLAIM_RETENTION_SECS", "3599", "number_out_of_range"),
    ("GCP_QUEUE_MAX_DELIVERY_ATTEMPTS", "0", "number_out_of_range"),
    ("FIRESTORE_CLAIMS_COLLECTION", "a/b", "invalid_collection"),
]


async def start(role: str, env: Mapping[str, str]) -> tuple[int, list[str]]:
    """Exit code of a role's real process, and the lines of its standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "runtime", role, env=dict(env), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(30):
        _, stderr = await process.communicate()
    return process.returncode or 0, stderr.decode().splitlines()


async def test_all_faults_of_an_environment_are_said_together_a_line_each() -> None:
    code, lines = await start("worker", worker_env(**{name: value for name, value, _ in FAULTS}))
    assert code == EXIT_CONFIGURATION
    assert sorted(line.split(":")[0] for line in lines) == sorted(fault for _, _, fault in FAULTS)
    for name, _, _ in FAULTS:
        assert sum(name in line.split(": ", 1)[1].split()[0] for line in lines) == 1, f"one line begins with {name}"


@pytest.mark.parametrize(
    ("role", "env", "says"),
    [
        ("scheduler", {}, "unknown_role: 'scheduler'"),
        ("", {}, "unknown_role: ''"),
        ("api", api_env(BACKEND_KEY=None), "missing_configuration: BACKEND_KEY"),
        ("worker", worker_env(BACKEND_PUB="AAAA"), "invalid_backend_pub: BACKEND_PUB"),
    ],
)
async def test_a_role_that_cannot_serve_ends_with_one_line(role: str, env: Mapping[str, str], says: str) -> None:
    code, lines = await start(role, env)
    assert code == EXIT_CONFIGURATION
    assert len(lines) == 1
    assert lines[0].startswith(says)


async def test_no_line_of_a_refused_start_holds_a_secret() -> None:
    env = api_env(PORT="0")
    _, lines = await start("api", {**env, "BACKEND_KEY": env["BACKEND_KEY"][:-4] + "!!!!"})
    assert any(line.startswith("invalid_backend_key") for line in lines)
    assert env["BACKEND_KEY"][:40] not in "\n".join(lines)
