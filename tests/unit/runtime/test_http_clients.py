"""Every HTTP client of the runtime says how long it waits, for the whole and for a connection, and follows nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

import aiohttp

from runtime.adapters import google_keys, metadata_server
from runtime.api import executor_client
from runtime.execution import callbacks
from runtime.execution.flow import limits
from runtime.wiring import CONNECT_SECONDS

RUNTIME: Final = Path(__file__).parents[3] / "runtime"
CALLS: Final = frozenset({"request", "get", "post", "put", "patch", "delete", "head", "options"})


@cache
def calls() -> tuple[tuple[str, str, dict[str, ast.expr]], ...]:
    """Each call of a name or method in the runtime: where, what is called, its keyword arguments."""
    return tuple(_calls())


def _calls() -> Iterator[tuple[str, str, dict[str, ast.expr]]]:
    for path in RUNTIME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
                yield f"{path.relative_to(RUNTIME)}:{node.lineno}", ast.unparse(node.func), given


def is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_every_session_leaves_the_environments_proxies_alone() -> None:
    sessions = [(where, given) for where, called, given in calls() if called.endswith("ClientSession")]
    assert sessions, "the scan finds them"
    assert [where for where, given in sessions if not is_false(given.get("trust_env"))] == []


def test_every_timeout_names_a_total_and_a_connection() -> None:
    """BR-53"""
    timeouts = [(where, set(given)) for where, called, given in calls() if called.endswith("ClientTimeout")]
    assert timeouts, "the scan finds them"
    wrong = [where for where, given in timeouts if "total" not in given or not given & {"connect", "sock_connect"}]
    assert wrong == []


def test_every_request_has_its_own_timeout_and_follows_no_redirect() -> None:
    """BR-53: the client's default of 300 s in all stands nowhere."""
    requests = [
        (where, given)
        for where, called, given in calls()
        if called.rpartition(".")[2] in CALLS and "session" in called.rpartition(".")[0].lower()
    ]
    assert len(requests) >= 4, "the scan finds them"
    assert [where for where, given in requests if not is_false(given.get("allow_redirects"))] == []
    bounded = {
        file(where) for where, called, given in calls() if called.endswith("ClientSession") and "timeout" in given
    }
    assert [where for where, given in requests if "timeout" not in given and file(where) not in bounded] == []


def file(where: str) -> str:
    return where.partition(":")[0]


def test_no_connection_is_waited_for_beyond_ten_seconds() -> None:
    """BR-53"""
    most = timedelta(seconds=10).total_seconds()
    waits = (
        CONNECT_SECONDS, google_keys.CONNECT_SECONDS, metadata_server.CONNECT_SECONDS, executor_client.CONNECT_SECONDS,
        callbacks.CONNECT_SECONDS, limits.HTTP_CONNECT_SECONDS,
    )  # fmt: skip
    assert all(0 < wait <= most for wait in waits)
    assert aiohttp.client.DEFAULT_TIMEOUT.total == 300, "what would apply where nobody says anything else"
