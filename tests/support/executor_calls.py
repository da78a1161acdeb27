"""A flow for the executor, and an endpoint's answers to its callbacks."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from runtime.contract.names import CALLBACK_CANCELLATION_PATH
from tests.support.endpoint import Call, Endpoint


def accepts(call: Call) -> web.StreamResponse:
    """Answers as the API does to a caller that has the lease."""
    if call.path == CALLBACK_CANCELLATION_PATH:
        return web.json_response({"cancel_requested": False, "ended": False})
    body = call.json
    if "events" in body:
        return web.json_response({"accepted": True, "next_sequence": body["events"][-1]["sequence"] + 1})
    states = {"running": "running", "completed": "succeeded", "timeout": "expired"}
    answer = {"accepted": True, "status": states.get(body["status"], body["status"]), "lease_acquired": True}
    return web.json_response({**answer, "attempt": 1, "next_sequence": 0, "cancel_requested": False})


def reports(api: Endpoint) -> list[Call]:
    """What was reported to it, in order: not the questions for a cancellation."""
    return [call for call in api.calls if call.path != CALLBACK_CANCELLATION_PATH]


def flow(seconds: float) -> dict[str, Any]:
    return {
        "start": "tell",
        "nodes": {
            "tell": {"type": "emit", "event": "greeting", "payload": "$.input", "next": "wait"},
            "wait": {"type": "sleep", "seconds": seconds},
        },
        "output": "$.input",
    }
