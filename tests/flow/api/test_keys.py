"""`/v1/keys` over a socket."""

from __future__ import annotations

from tests.support.served_api import ServedApi


async def test_a_key_is_made_used_listed_and_revoked(served: ServedApi) -> None:
    status, made, headers = await served.call("POST", "/v1/keys", {"name": "shop", "scopes": ["runs"]})
    assert (status, headers["Cache-Control"]) == (201, "no-store")
    key = made["key"]
    assert key.startswith("hf_shop_")
    status, _, _ = await served.call("POST", "/v1/runs", {"engine": "report"}, key=key)
    assert status == 202
    assert served.publisher.messages[0][1]["payload"]["user_id"] == "shop"
    status, problem, _ = await served.call("GET", "/v1/keys", key=key)
    assert (status, problem["code"]) == (403, "scope_missing")
    _, listed, _ = await served.call("GET", "/v1/keys")
    assert listed["keys"] == [
        {
            "name": "shop", "scopes": ["runs"], "created_at": "2026-01-01T00:00:00.000000Z", "created_by": "root",
            "revoked_at": None,
        }
    ]  # fmt: skip
    status, _, _ = await served.call("DELETE", "/v1/keys/shop")
    assert status == 204
    status, _, _ = await served.call("GET", "/v1/runs", key=key)
    assert status == 401
    _, listed, _ = await served.call("GET", "/v1/keys")
    assert listed["keys"][0]["revoked_at"] == "2026-01-01T00:00:00.000000Z"


async def test_a_key_is_not_made_twice_nor_from_a_bad_request(served: ServedApi) -> None:
    await served.call("POST", "/v1/keys", {"name": "shop"})
    status, problem, _ = await served.call("POST", "/v1/keys", {"name": "shop"})
    assert (status, problem["code"]) == (409, "key_exists")
    status, problem, _ = await served.call("POST", "/v1/keys", {"name": "Shop", "scope": "admin"})
    assert status == 422
    assert {fault["pointer"] for fault in problem["errors"]} == {"/name", "/scope"}
