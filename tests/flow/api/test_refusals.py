"""Everything the API refuses: one shape, a stable code, the place of each fault, and nothing stored."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from runtime.contract.limits import API_BODY_BYTES, INLINE_PAYLOAD_BYTES
from runtime.contract.names import CALLBACK_CANCELLATION_PATH, CALLBACK_EVENTS_PATH, CALLBACK_PROGRESS_PATH
from tests.support.served_api import FLOW, KEY, ServedApi

GOOD: dict[str, Any] = {"engine": "flow", "flow": FLOW}


def body(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


REFUSED: dict[str, tuple[bytes, int, str, set[str]]] = {
    "not json": (b"{", 400, "invalid_json", set()),
    "empty": (b"", 400, "invalid_json", set()),
    "not utf-8": (b'{"a":"\xff"}', 400, "invalid_json", set()),
    "BR-07 deep": (b"[" * 20_000 + b"]" * 20_000, 400, "invalid_json", set()),
    "deep": (
        b'{"engine":"report","input":' + b"[" * 70 + b"]" * 70 + b"}", 422, "invalid_request", {"/input" + "/0" * 63},
    ),
    "not an object": (b"[]", 422, "invalid_request", {""}),
    "nan": (b'{"engine":"report","input":NaN}', 422, "invalid_request", {"/input"}),
    "large integer": (body(input=2**53), 422, "invalid_request", {"/input"}),
    "twice": (b'{"engine":"report","engine":"flow"}', 422, "invalid_request", {""}),
    "unknown engine": (body(engine="gpu"), 422, "invalid_request", {"/engine"}),
    "unknown field": (body(priority=1), 422, "invalid_request", {"/priority"}),
    "malformed flow": (
        body(flow={"start": "a", "nodes": {"a": {"type": "set", "next": "b"}}}), 422, "invalid_request",
        {"/flow/nodes/a/value", "/flow/nodes/a/next"},
    ),
    "many faults": (
        body(run_id="/", timeout_seconds=9999, max_attempts=9, labels=1), 422, "invalid_request",
        {"/run_id", "/timeout_seconds", "/max_attempts", "/labels"},
    ),
    "payload": (body(input="x" * INLINE_PAYLOAD_BYTES), 413, "payload_too_large", {"/input"}),
    "body": (b" " * (API_BODY_BYTES + 1), 413, "body_too_large", set()),
    "mode": (body(mode="sync"), 422, "mode_not_available", {"/mode"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_request_is_one_problem_with_its_places_and_stores_nothing(served: ServedApi, name: str) -> None:
    sent, expected, code, places = REFUSED[name]
    status, problem, headers = await served.call("POST", "/v1/runs", sent)
    assert (status, problem["code"]) == (expected, code)
    assert headers["Content-Type"] == "application/problem+json"
    assert {problem["type"], problem["status"]} == {"about:blank", expected}
    assert problem["title"]
    assert problem["detail"]
    assert {fault["pointer"] for fault in problem.get("errors", [])} == places
    assert await served.stored() == []
    assert served.publisher.tries == 0


async def test_a_body_at_the_limit_is_read(served: ServedApi) -> None:
    small = body()
    status, _, _ = await served.call("POST", "/v1/runs", small + b" " * (API_BODY_BYTES - len(small)))
    assert status == 202


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
async def test_another_content_type_is_a_415(served: ServedApi, kind: str) -> None:
    status, problem, _ = await served.call("POST", "/v1/runs", body(), Content_Type=kind)
    assert (status, problem["code"]) == (415, "unsupported_media_type")
    assert await served.stored() == []


async def test_a_charset_of_the_sender_changes_nothing(served: ServedApi) -> None:
    status, _, _ = await served.call("POST", "/v1/runs", body(), Content_Type="application/json; charset=test")
    assert status == 202


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate"])
async def test_an_encoded_body_is_a_415_and_not_inflated(served: ServedApi, encoding: str) -> None:
    packed = gzip.compress(b"a" * 10_000_000)
    status, problem, _ = await served.call("POST", "/v1/runs", packed, Content_Encoding=encoding)
    assert (status, problem["code"]) == (415, "unsupported_content_encoding")


ROUTES = [
    ("POST", "/v1/runs"), ("GET", "/v1/runs"), ("GET", "/v1/runs/r1"), ("GET", "/v1/runs/r1/events"),
    ("POST", "/v1/runs/r1/cancel"), ("POST", "/v1/keys"), ("GET", "/v1/keys"), ("DELETE", "/v1/keys/shop"),
    ("POST", CALLBACK_PROGRESS_PATH), ("POST", CALLBACK_EVENTS_PATH), ("GET", CALLBACK_CANCELLATION_PATH),
    ("POST", "/internal/tick"), ("POST", "/internal/dead-letters"),
    ("GET", "/v1/dead-letters"), ("GET", "/v1/dead-letters/" + "a" * 64),
    ("POST", "/v1/dead-letters/" + "a" * 64 + "/replay"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("key", [None, "hf_root_" + "x" * 40, "not.a.jwt"])
async def test_no_route_is_open_to_a_stranger(served: ServedApi, method: str, path: str, key: str | None) -> None:
    status, problem, headers = await served.call(method, path, body() if method == "POST" else None, key=key)
    assert status == 401
    assert problem["code"] in {"api_key_invalid", "job_token_invalid", "push_token_rejected"}
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert await served.stored() == []


async def test_every_route_is_in_the_table_above(served: ServedApi) -> None:
    filled = {"run_id": "r1", "name": "shop", "letter_id": "a" * 64}
    routes = {
        (route.method, route.resource.canonical.format_map(filled))
        for route in served.app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    open_to_all = {("GET", path) for path in ("/health", "/health/live", "/health/ready", "/metrics")}
    assert routes - open_to_all == set(ROUTES)


async def test_a_strangers_body_is_not_read(served: ServedApi) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer caf\xe9\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n"
    )
    try:
        assert (await reader.readline()).startswith(b"HTTP/1.1 401"), "no 100 Continue, no byte of the body"
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_body_that_waits_for_its_invitation_is_invited_once_the_key_is_good(served: ServedApi) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    sent = body()
    writer.write(
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Expect: 100-continue\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
    )
    try:
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(sent)
        assert (await reader.readline()).startswith(b"HTTP/1.1 202")
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("drip", [b"", b" "], ids=["comes not at all", "drips"])
async def test_a_body_that_does_not_come_in_time_is_a_408(served: ServedApi, drip: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
        f"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n".encode()
    )
    try:
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(30):
            writer.write(drip)
            await served.clock.advance(1)
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_chunked_body_over_the_limit_is_a_413(served: ServedApi) -> None:
    async def chunks() -> Any:
        for _ in range(API_BODY_BYTES // 65536 + 2):
            yield b" " * 65536

    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    async with served.session.post("/v1/runs", data=chunks(), headers=headers) as response:
        problem = await response.json(content_type=None)
    assert (response.status, problem["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/runs/nobody", 404, "run_not_found"),
        ("GET", "/v1/runs/a.b", 404, "run_not_found"),
        ("GET", "/v1/runs/a%2Fb", 404, "run_not_found"),
        ("GET", "/v1/runs/nobody/events", 404, "run_not_found"),
        ("GET", "/v1/runs/nobody/events?wait=30", 404, "run_not_found"),
        ("POST", "/v1/runs/nobody/cancel", 404, "run_not_found"),
        ("DELETE", "/v1/keys/nobody", 404, "key_not_found"),
        ("GET", "/v1/runs?state=sleeping", 400, "invalid_query"),
        ("GET", "/v1/runs?limit=0", 400, "invalid_query"),
        ("GET", "/v1/runs?limit=201", 400, "invalid_query"),
        ("GET", "/v1/runs?limit=1&limit=2", 400, "invalid_query"),
        ("GET", "/v1/runs?before=yesterday", 400, "invalid_query"),
        ("GET", "/v1/runs?order=asc", 400, "invalid_query"),
        ("GET", "/v1/runs/r1/events?after=x", 400, "invalid_query"),
        ("GET", "/v1/runs/r1/events?wait=31", 400, "invalid_query"),
        ("PUT", "/v1/runs", 405, "method_not_allowed"),
        ("GET", "/v2/runs", 404, "not_found"),
    ],
)
async def test_what_is_not_there_or_not_understood_is_a_problem(
    served: ServedApi, method: str, path: str, status: int, code: str
) -> None:
    got, problem, headers = await served.call(method, path)
    assert (got, problem["code"]) == (status, code)
    assert headers["Content-Type"] == "application/problem+json"


async def test_a_fault_of_the_service_is_a_500_without_its_text(
    served: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_args: object, **_kwargs: object) -> None:
        raise ZeroDivisionError("a secret of the service")

    monkeypatch.setattr(served.memory, "get", broken)
    status, problem, _ = await served.call("GET", "/v1/runs/r1")
    assert (status, problem["code"]) == (500, "internal")
    assert "secret" not in str(problem)
