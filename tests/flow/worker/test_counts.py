"""Every answer of a worker is counted once, with the status that was sent."""

from __future__ import annotations

import asyncio

from runtime.worker.workload import Ended
from tests.support.deliveries import GOOD, envelope
from tests.support.served_worker import ServedWorker

HOST = "Host: worker"


async def broken(_stop: asyncio.Event) -> Ended:
    raise ZeroDivisionError


def counted(served: ServedWorker) -> dict[tuple[str, str, str], float]:
    return {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"]): sample.value
        for family in served.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "http_requests_total"
    }


async def test_what_fails_early_is_counted_as_what_it_was_answered(served: ServedWorker) -> None:
    """BR-117: one of each. Nothing is answered 417: an unusual `Expect` is passed over. A surprise is 503."""
    token = f"Authorization: {served.bearer}"
    length = f"Content-Length: {len(GOOD)}"
    assert (await served.push())[0] == 204
    assert (await served.raw("POST / HTTP/1.1", HOST, length)).split()[1] == "401"
    assert (await served.push(path="/index"))[0] == 404
    assert (await served.raw("POST /index HTTP/1.1", HOST, token, length, "Expect: nonsense")).split()[1] == "404"
    assert (await served.raw("PUT / HTTP/1.1", HOST)).split()[1] == "405"
    assert (await served.raw("POST / HTTP/1.1", HOST, token, "Content-Length: 100000000")).split()[1] == "413"
    assert (await served.raw("POST / HTTP/1.1", HOST, HOST)).split()[1] == "400"
    assert (await served.raw("no request at all")).split()[1] == "400"
    served.workload.run = broken
    assert (await served.push(envelope(message_id="1002")))[0] == 503
    assert (await served.push(b"{}"))[0] == 500

    assert counted(served) == {
        ("/", "POST", "204"): 1,
        ("/", "POST", "401"): 1,
        ("/", "POST", "413"): 1,
        ("/", "POST", "500"): 1,
        ("/", "POST", "503"): 1,
        ("unmatched", "POST", "404"): 2,
        ("unmatched", "PUT", "405"): 1,
        ("unmatched", "other", "400"): 2,
    }
    assert served.metrics.registry.get_sample_value("http_requests_in_flight") == 0
