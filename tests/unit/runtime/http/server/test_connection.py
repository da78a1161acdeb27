"""One connection without a socket: order, patience, and what is read when."""

from __future__ import annotations

import asyncio

import pytest

from runtime.http.server.answer import Answer, plain
from runtime.http.server.body import BodyBroken
from runtime.http.server.limits import HELD_BYTES
from runtime.http.server.request import Request
from tests.support.http_caller import Ground

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


class Gate:
    """Holds requests until it is opened, in order of arrival."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun: list[bytes] = []

    async def __call__(self, request: Request) -> Answer:
        self.begun.append(request.path)
        await self.open.wait()
        return plain(200, request.path.decode())


async def echo(request: Request) -> Answer:
    return Answer(200, b"".join([part async for part in request.body.chunks()]))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# --- requests and answers


async def test_an_answer_has_its_length_its_kind_and_its_date(ground: Ground) -> None:
    caller = ground.call(GET)
    assert caller.sent == b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\n/a"
    assert b"\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n" in caller.transport.sent
    assert not caller.closed


async def test_an_answer_without_content_has_no_length(ground: Ground) -> None:
    ground.application.reply = lambda _: Answer(204)
    assert ground.call(GET).sent == b"HTTP/1.1 204 No Content\r\n\r\n"


async def test_an_answer_to_head_is_the_head_of_the_answer(ground: Ground) -> None:
    answer = ground.call(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n").sent
    assert (b"Content-Length: 2\r\n" in answer, answer.endswith(b"\r\n\r\n")) == (True, True)


async def test_requests_that_come_at_once_are_answered_in_order_and_one_at_a_time(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET + GET.replace(b"/a", b"/b") + b"\r\n" + GET.replace(b"/a", b"/c")[:-2])
    await turns()
    assert (gate.begun, caller.statuses) == ([b"/a"], [])
    gate.open.set()
    await turns()
    assert (gate.begun, caller.statuses) == ([b"/a", b"/b"], [200, 200])
    caller.send(b"\r\n")
    await turns()
    assert (gate.begun[2], caller.sent[-2:]) == (b"/c", b"/c")


async def test_nothing_more_is_read_while_a_request_is_answered(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET, GET)
    reading = [caller.transport.reading]
    gate.open.set()
    await turns()
    assert [*reading, caller.transport.reading] == [False, True]
    assert caller.statuses == [200, 200]


async def test_who_does_not_take_its_answers_gets_no_more_and_is_left(ground: Ground) -> None:
    caller = ground.call()
    caller.connection.pause_writing()
    caller.send(GET)
    before = caller.statuses
    caller.connection.resume_writing()
    assert (before, caller.statuses) == ([], [200])
    caller.connection.pause_writing()
    await ground.clock.advance(32)
    assert caller.transport.aborted


@pytest.mark.parametrize("size", [1, 2, 7, 50])
async def test_a_request_means_the_same_in_any_pieces(ground: Ground, size: int) -> None:
    ground.application.reply = echo
    whole = POST + b"hello"
    caller = ground.call()
    for start in range(0, len(whole), size):
        caller.send(whole[start : start + size])
        await turns()
    assert caller.sent.endswith(b"\r\n\r\nhello")
    assert not caller.closed


# --- bodies


async def test_a_body_is_not_read_before_it_is_wanted(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(POST)
    await turns()
    assert not caller.transport.reading
    gate.open.set()
    await turns()
    assert caller.statuses == [200]
    assert b"Connection: close\r\n" in caller.sent, "where the next request begins is not known"


async def test_a_body_that_came_with_its_head_ends_no_connection_unread(ground: Ground) -> None:
    caller = ground.call(POST + b"hello" + GET)
    assert caller.statuses == [200, 200]
    assert not caller.closed


async def test_what_nobody_takes_of_a_body_is_read_no_further(ground: Ground) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Answer:
        size = 0
        async for part in request.body.chunks():
            size += len(part)
            began.set()
            await go_on.wait()
        return plain(200, str(size))

    ground.application.reply = slow
    caller = ground.call(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n")
    await turns()
    caller.send(b"x" * 10_000)
    await began.wait()
    caller.send(b"x" * (HELD_BYTES + 1))
    assert not caller.transport.reading
    go_on.set()
    await turns()
    caller.send(b"x" * (290_000 - HELD_BYTES - 1) + GET)
    await turns()
    assert caller.sent.count(b"300000") == 1
    assert caller.statuses == [200, 200]


async def test_a_body_in_chunks_ends_its_connection(ground: Ground) -> None:
    ground.application.reply = echo
    caller = ground.call(CHUNKED + b"5\r\nhel")
    await turns()
    caller.send(b"lo\r\n1;a=b\r\n!\r\n0\r\nTrailer: x\r\n\r\n" + GET)
    await turns()
    assert (caller.statuses, caller.sent[-6:], caller.closed) == ([200], b"hello!", True)


@pytest.mark.parametrize("bad", [b"zz\r\n", b"-1\r\n", b"F" * 40 + b"\r\n", b"5\r\nhellox\r\n", b"5\nhello\r\n"])
async def test_a_broken_chunk_is_told_to_who_reads(ground: Ground, bad: bytes) -> None:
    ground.application.reply = echo
    caller = ground.call(CHUNKED)
    await turns()
    caller.send(bad)
    await turns()
    assert [type(error) for error in ground.application.errors] == [BodyBroken]
    assert (caller.statuses, caller.closed) == ([503], True)


async def test_chunks_without_content_have_an_end(ground: Ground) -> None:
    ground.application.reply = echo
    caller = ground.call(CHUNKED + b"5\r\nhello\r\n0\r\nTrailer: ")
    await turns()
    for _ in range(9):
        if caller.transport.reading:
            caller.send(b"x" * 8192)
        await turns()
    assert caller.statuses == [503]


async def test_a_body_is_asked_for_once_somebody_wants_it(ground: Ground) -> None:
    expecting = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-Continue\r\n\r\n")
    assert ground.call(expecting).statuses == [200], "who reads nothing asks for nothing"
    ground.application.reply = echo
    caller = ground.call(expecting)
    await turns()
    assert caller.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    caller.send(b"he")
    await turns()
    caller.send(b"llo")
    await turns()
    assert (caller.statuses, caller.closed) == ([100, 200], False)


@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
async def test_nothing_is_asked_for_that_was_not_offered(ground: Ground, version: bytes) -> None:
    expectation = b"nonsense" if version == b"HTTP/1.1" else b"100-continue"
    ground.application.reply = echo
    head = POST.replace(b"HTTP/1.1", version).replace(b"\r\n\r\n", b"\r\nExpect: " + expectation + b"\r\n\r\n")
    caller = ground.call(head)
    await turns()
    before = caller.statuses
    caller.send(b"hello")
    await turns()
    assert (before, caller.statuses) == ([], [200])


# --- callers that go


async def test_work_goes_on_when_its_caller_hangs_up(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET)
    await turns()
    caller.hang_up()
    gate.open.set()
    await turns()
    assert [task.done() for task in ground.tasks] == [True]
    assert caller.sent == b""


@pytest.mark.parametrize("goes", ["end", "hang_up"])
async def test_a_body_that_breaks_off_is_told_to_who_reads(ground: Ground, goes: str) -> None:
    ground.application.reply = echo
    caller = ground.call(POST + b"he")
    await turns()
    getattr(caller, goes)()
    await turns()
    assert [type(error) for error in ground.application.errors] == [BodyBroken]


async def test_who_sends_no_more_is_still_answered_all_that_it_asked(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET + GET)
    caller.end()
    gate.open.set()
    await turns()
    assert (caller.statuses, caller.closed) == ([200, 200], True)


async def test_who_ends_between_requests_is_gone(ground: Ground) -> None:
    caller = ground.call(GET)
    caller.end()
    assert caller.transport.gone


# --- what goes wrong


async def test_what_is_no_request_is_answered_once_and_for_the_last_time(ground: Ground) -> None:
    caller = ground.call(b"hello\r\n\r\n" + GET)
    assert (caller.statuses, caller.closed, ground.application.seen) == ([400], True, [])
    assert ground.application.kinds == ["not_http_1"]
    caller.send(GET)
    assert caller.statuses == [400]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in its task"])
async def test_a_handler_that_fails_is_a_surprise_and_the_connection_goes_on(ground: Ground, *, late: bool) -> None:
    async def fails(_request: Request) -> Answer:
        raise ZeroDivisionError

    def at_once(_request: Request) -> Answer:
        raise ZeroDivisionError

    ground.application.reply = fails if late else at_once
    caller = ground.call(GET, GET) if not late else ground.call(GET)
    await turns()
    assert set(caller.statuses) == {503}
    assert not caller.closed


async def test_work_that_is_cancelled_is_a_surprise(ground: Ground) -> None:
    ground.application.reply = Gate()
    caller = ground.call(GET)
    await turns()
    for task in ground.tasks:
        task.cancel()
    await turns()
    assert caller.statuses == [503]


# --- patience


async def test_an_idle_connection_is_closed_when_its_time_is_over(ground: Ground) -> None:
    fresh, used = ground.call(), ground.call(GET)
    await ground.clock.advance(619)
    assert not fresh.closed
    await ground.clock.advance(3)
    assert (fresh.closed, used.closed, fresh.sent) == (True, True, b"")


async def test_a_head_that_does_not_end_is_refused(ground: Ground) -> None:
    caller = ground.call(b"GET / HTTP/1.1\r\n")
    await ground.clock.advance(20)
    caller.send(b"Host: x\r\n")
    await ground.clock.advance(9)
    assert not caller.closed
    await ground.clock.advance(3)
    assert (caller.statuses, caller.closed, ground.application.kinds) == ([408], True, ["head_too_slow"])


async def test_a_request_that_is_being_answered_has_all_the_time_that_its_handler_takes(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET)
    await ground.clock.advance(10_000)
    gate.open.set()
    await turns()
    assert (caller.statuses, caller.closed) == ([200], False)


async def test_after_a_last_answer_what_arrives_is_thrown_away_for_a_while(ground: Ground) -> None:
    caller = ground.call(POST.replace(b" 5", b" 500000"))
    assert (caller.statuses, caller.transport.ended, caller.transport.gone) == ([200], True, False)
    caller.send(b"x" * 400_000)
    assert caller.connection._received == b""
    await ground.clock.advance(3)
    assert caller.transport.gone


async def test_without_patience_a_last_answer_closes_at_once() -> None:
    ground = Ground(linger=0)
    caller = ground.call(POST)
    assert (caller.statuses, caller.transport.gone) == ([200], True)
    await ground.stop()


# --- the end


async def test_a_server_that_drains_answers_and_lets_go(ground: Ground) -> None:
    ground.draining.set()
    caller = ground.call(GET)
    assert b"Connection: close\r\n" in caller.sent
    assert caller.closed


async def test_the_end_closes_idle_connections_and_waits_for_answers(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    idle, busy = ground.call(), ground.call(GET)
    ending = asyncio.create_task(ground.server.disconnect())
    await turns()
    assert (idle.transport.gone, busy.closed) == (True, False)
    gate.open.set()
    await turns()
    assert (busy.statuses, busy.closed) == ([200], True)
    busy.hang_up()
    await ending


async def test_the_end_aborts_what_is_left_and_leaves_its_work(ground: Ground) -> None:
    gate = Gate()
    ground.application.reply = gate
    caller = ground.call(GET)
    ending = asyncio.create_task(ground.server.disconnect())
    await turns()
    await ground.clock.advance(1)
    await ending
    assert caller.transport.aborted
    assert [task.done() for task in ground.tasks] == [False]
