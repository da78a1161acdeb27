"""What an `http` node asks for, and what it makes of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.contract.states import ProgressStatus
from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.execution.flow.limits import HTTP_SECONDS
from runtime.ports.engine import RunResult
from tests.support.flow_bench import FlowBench, chain


def bench(status: int = 200, body: bytes = b"", headers: dict[str, str] | None = None) -> FlowBench:
    async def answers(_request: HttpRequest) -> HttpAnswer:
        return HttpAnswer(status, headers or {}, body)

    return FlowBench(answers=answers)


async def run(one: FlowBench, value: object = None, **node: Any) -> RunResult:
    return await one.run(chain({"type": "http", "url": "https://api.example/x", **node}), value)


async def test_a_request_is_put_together_from_the_run() -> None:
    one = bench(201, b'{"ok": true}', {"x-id": "7"})
    result = await run(
        one,
        {"id": 5, "key": "secret"},
        url="https://api.example/items/${input.id}",
        method="POST",
        headers={"Authorization": "Bearer ${input.key}"},
        json={"n": ["$.input.id"]},
        timeout_seconds=12,
    )
    assert one.requests == [
        HttpRequest("POST", "https://api.example/items/5", [("Authorization", "Bearer secret")], b'{"n":[5]}', 12)
    ]
    assert result.output == {"status": 201, "headers": {"x-id": "7"}, "body": {"ok": True}}
    assert "secret" not in repr(one.events[:-1]), "no event of a node holds what was sent"


async def test_a_request_without_a_limit_gets_one() -> None:
    one = bench(body=b"1")
    await run(one)
    assert one.requests == [HttpRequest("GET", "https://api.example/x", [], None, HTTP_SECONDS)]


@pytest.mark.parametrize(
    ("body", "response", "found"),
    [
        (b"", "json", None),
        (b"[1]", "json", [1]),
        (b"[1]", "text", "[1]"),
        (b"\xff", "text", "\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_a_body_is_read_as_it_is_asked_for(body: bytes, response: str, found: object) -> None:
    result = await run(bench(body=body), response=response)
    assert isinstance(result.output, dict)
    assert result.output["body"] == found


@pytest.mark.parametrize("body", [b"<html>", b"\xff", b"NaN", b"[" * 100_000, b'"\xed\xa0\x80"'])
async def test_a_body_that_is_no_json_fails_the_node(body: bytes) -> None:
    assert "is not JSON" in str((await run(bench(body=body))).error)


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_a_status_that_is_no_success_fails_the_node_unless_it_is_accepted(status: int) -> None:
    result = await run(bench(status))
    assert (result.status, result.error) == (
        ProgressStatus.FAILED,
        f"node 'n0': the answer has status {status}; `accept_errors` keeps it as a result",
    )
    accepted = await run(bench(status), accept_errors=True)
    assert isinstance(accepted.output, dict)
    assert (accepted.status, accepted.output["status"]) == (ProgressStatus.COMPLETED, status)


async def test_a_request_that_fails_can_be_caught() -> None:
    async def answers(_request: HttpRequest) -> HttpAnswer:
        raise FlowFault("'api.example' cannot be resolved")

    one = FlowBench(answers=answers)
    spec = chain(
        {"type": "http", "url": "https://api.example/x", "on_error": "n1"},
        {"type": "set", "value": "$.error.message"},
    )
    assert (await one.run(spec)).output == "'api.example' cannot be resolved"


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"url": "$.input.n"}, "`url` gives a number"),
        ({"headers": {"A": "$.input.n"}}, "`header A` gives a number"),
        ({"method": "POST", "json": ["$.input.text"] * 11}, "larger than"),
    ],
)
async def test_what_cannot_be_sent_fails_the_node(node: dict[str, Any], says: str) -> None:
    one = bench()
    assert says in str((await run(one, {"n": 5, "text": "x" * 100_000}, **node)).error)
    assert one.requests == []
