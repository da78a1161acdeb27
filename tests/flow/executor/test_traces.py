"""The executor's spans: its request as a child of the API's, the run inside it."""

from __future__ import annotations

from tests.support.served_executor import ServedExecutor
from tests.support.trace_receiver import attributes, receiving

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def test_a_run_is_a_span_inside_the_request_that_the_api_made() -> None:
    async with receiving() as (receiver, tracing):
        served = ServedExecutor(tracing=tracing)
        await served.start()
        parent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        await served.events("/execute/stream", served.job(), parent)
        await served.call("/execute", {}, {"traceparent": parent["traceparent"][:-1] + "0"})
        async with served.session.get("/health/live", headers=parent) as response:
            assert response.status == 200
        await served.stop()
        await tracing.close()
    request, run = receiver.one("/execute/stream"), receiver.one("run")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, SPAN)
    assert attributes(request) == {
        "http.request.method": "POST", "http.route": "/execute/stream", "http.response.status_code": 200,
    }  # fmt: skip
    assert (run.trace_id.hex(), run.parent_span_id) == (TRACE, request.span_id)
    assert attributes(run) == {"holdfast.engine": "counts", "holdfast.state": "succeeded"}
    assert receiver.spans.keys() == {"/execute/stream", "run"}, "neither health nor what the caller does not record"
