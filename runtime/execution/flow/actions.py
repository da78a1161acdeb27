"""What each kind of node does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from runtime.contract.limits import EVENT_BYTES
from runtime.execution.flow.definition import (
    Call,
    EmitEvent,
    Evaluate,
    Fail,
    HttpCall,
    MapOver,
    Node,
    Sleep,
)
from runtime.execution.flow.expression import as_text
from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.frame import Frame
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.execution.flow.kinds import is_seconds
from runtime.execution.flow.limits import HTTP_REQUEST_BYTES, HTTP_SECONDS, MAP_ITEMS, SECONDS, VALUE_BYTES
from runtime.execution.flow.path import kind
from runtime.execution.flow.size import measure
from runtime.execution.tasks import end
from runtime.execution.values import ValueRefused, decode, encode

if TYPE_CHECKING:
    from runtime.execution.flow.run import FlowRun


async def perform(run: FlowRun, frame: Frame, node: Node) -> object:
    """Does what the node says and gives its value.

    Raises:
        FlowFault: it failed.
        FlowLimit: the run is over a limit.
    """
    action = node.action
    match action:
        case Evaluate():
            return action.value.evaluate(frame.scope)
        case MapOver():
            return await _map(run, frame, node, action)
        case HttpCall():
            return await _http(run, frame, node, action)
        case EmitEvent():
            await _emit(run, frame, action)
            return None
        case Sleep():
            await _sleep(run, frame, action)
            return None
        case Call():
            value = action.value.evaluate(frame.scope)
            measure(value)
            return await run.call(action.flow, value, label=f"{frame.label}{node.id}/", depth=frame.depth + 1)
        case Fail():
            raise FlowFault(as_text(action.message.evaluate(frame.scope)), status_code=action.status_code)
        case _:
            raise TypeError(f"{node.kind!r} is no action")


async def _map(run: FlowRun, frame: Frame, node: Node, action: MapOver) -> list[object]:
    items = action.over.evaluate(frame.scope)
    if not isinstance(items, list):
        raise FlowFault(f"`over` gives {kind(items)}; a map goes over a list")
    if len(items) > MAP_ITEMS:
        raise FlowFault(f"`over` gives {len(items)} items; a map takes at most {MAP_ITEMS}")
    measure(items)
    results: list[object] = [None] * len(items)
    total = 0

    async def one(index: int) -> None:
        nonlocal total
        await run.budget.step()
        value = action.value.evaluate({**frame.scope, "item": items[index], "index": index})
        size = measure(value)
        if action.flow is not None:
            label = f"{frame.label}{node.id}[{index}]/"
            value = await run.call(action.flow, value, label=label, depth=frame.depth + 1)
            size = measure(value)
        total += size
        if total > VALUE_BYTES:
            raise FlowFault(f"the results together are larger than {VALUE_BYTES} bytes")
        results[index] = value

    with run.budget.workers(min(action.concurrency, len(items))) as workers:
        await _each(iter(range(len(items))), workers, one)
    return results


async def _each(positions: Iterator[int], workers: int, one: Callable[[int], Awaitable[None]]) -> None:
    """Works all positions, in order, `workers` at a time. The first that fails stops the others."""

    async def work() -> None:
        for index in positions:
            await one(index)

    if workers == 1:
        await work()
        return
    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task in done:
                task.result()
    finally:
        await end(*tasks)


async def _http(run: FlowRun, frame: Frame, node: Node, action: HttpCall) -> object:
    body = action.body.evaluate(frame.scope) if action.body is not None else None
    measure(body, HTTP_REQUEST_BYTES)
    try:
        encoded = encode(body, HTTP_REQUEST_BYTES) if action.body is not None else None
    except ValueRefused as error:
        raise FlowFault(f"`json`: {error}") from None
    answer = await run.http.send(
        HttpRequest(
            method=action.method,
            url=_string(action.url.evaluate(frame.scope), "url"),
            headers=[(name, _string(value.evaluate(frame.scope), f"header {name}")) for name, value in action.headers],
            body=encoded,
            seconds=node.timeout or HTTP_SECONDS,
        )
    )
    if not 200 <= answer.status < 300 and not action.accept_errors:
        raise FlowFault(f"the answer has status {answer.status}; `accept_errors` keeps it as a result")
    return {"status": answer.status, "headers": dict(answer.headers), "body": _body(answer, as_text=action.as_text)}


def _body(answer: HttpAnswer, *, as_text: bool) -> object:
    if as_text:
        return answer.body.decode("utf-8", "replace")
    if not answer.body:
        return None
    try:
        return decode(answer.body)
    except ValueError:
        raise FlowFault('the body of the answer is not JSON; `"response": "text"` keeps it as it is') from None


async def _emit(run: FlowRun, frame: Frame, action: EmitEvent) -> None:
    payload = action.payload.evaluate(frame.scope)
    measure(payload, EVENT_BYTES)
    try:
        await run.context.emit(action.event, payload)
    except ValueRefused as error:
        raise FlowFault(f"`payload`: {error}") from None


async def _sleep(run: FlowRun, frame: Frame, action: Sleep) -> None:
    seconds = action.seconds.evaluate(frame.scope)
    if not isinstance(seconds, int | float) or not is_seconds(seconds):
        raise FlowFault(f"`seconds` gives {kind(seconds)}; it must be a number from 0 to {SECONDS}")
    await run.clock.sleep(seconds)


def _string(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise FlowFault(f"`{what}` gives {kind(value)}; it must be a string")
    return value
