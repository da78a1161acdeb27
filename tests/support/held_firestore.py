"""A store whose requests to Firestore wait until a test answers them, and whose lanes are all taken."""

from __future__ import annotations

import asyncio
from typing import Any

from google.cloud.firestore_v1.types import firestore as messages
from google.rpc.code_pb2 import OK

from runtime.adapters.clock import SystemClock
from runtime.adapters.firestore import FirestoreDocuments
from runtime.adapters.firestore_batches import (
    LANES,
    BatchedCommits,
)
from runtime.adapters.firestore_calls import Left
from runtime.adapters.grpc_calls import ChannelClosed
from runtime.ports.clock import Clock
from runtime.ports.documents import (
    Create,
    Key,
    Version,
)


class HeldCalls:
    """A connection whose requests wait until the test answers them: no server answers in an order that one can choose.

    Attributes:
        commits, batches: what is under way, in order.
    """

    database = "projects/p/databases/(default)"

    def __init__(self) -> None:
        self.commits: list[tuple[Any, asyncio.Future[Any]]] = []
        self.batches: list[tuple[Any, asyncio.Future[Any]]] = []
        self.lefts: list[float] = []

    async def commit(self, request: Any, left: Left) -> Any:
        return await self._held(self.commits, request, left)

    async def batch_write(self, request: Any, left: Left) -> Any:
        return await self._held(self.batches, request, left)

    async def batch_get(self, request: Any, left: Left) -> list[Any]:
        del left
        found = []
        for name in request.documents:
            item = messages.BatchGetDocumentsResponse.pb()()
            item.found.name = name
            item.found.update_time.seconds = 99
            found.append(item)
        return found

    async def run_query(self, request: Any, left: Left) -> list[Any]:
        raise AssertionError

    async def close(self) -> None:
        for _, answer in [*self.commits, *self.batches]:
            if not answer.done():
                answer.set_exception(ChannelClosed())

    async def _held(self, into: list[tuple[Any, asyncio.Future[Any]]], request: Any, left: Left) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.lefts.append(left())
        into.append((request, answer))
        return await answer


class ImpatientClock(SystemClock):
    """Does not wait between tries."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


class Store:
    """A store over held calls, with every lane taken."""

    def __init__(self, retries: int = 0, clock: Clock | None = None) -> None:
        self.calls = HeldCalls()
        clock = clock or ImpatientClock()
        self.documents = FirestoreDocuments(BatchedCommits(self.calls, clock), clock, retries=retries)
        self.first: list[asyncio.Task[list[Version]]] = []

    async def fill(self) -> None:
        self.first = [self.create(f"first{number}") for number in range(LANES)]
        await turn()
        assert len(self.calls.commits) == LANES

    async def fill_again(self) -> None:
        """Takes every lane anew, and no more: one further write has to wait."""
        begun = len(self.calls.commits)
        self.first += [self.create(f"again{number}") for number in range(LANES + 1)]
        await turn()
        assert len(self.calls.commits) == begun + LANES

    async def send(self, *names: str) -> list[asyncio.Task[list[Version]]]:
        """Creates documents that share a request, which is under way."""
        created = await self.about_to_send(*names)
        await turn()
        return created

    async def about_to_send(self, *names: str) -> list[asyncio.Task[list[Version]]]:
        """The same in the turn in which the request's task is made, and has not begun."""
        await self.fill()
        created = [self.create(name) for name in names]
        await turn()
        self.free()
        others = {asyncio.current_task(), *self.first, *created}
        while not asyncio.all_tasks() - others:  # noqa: ASYNC110 - it is a few turns away, and makes no event
            await asyncio.sleep(0)
        assert not self.calls.batches
        return created

    def create(self, name: str, **data: object) -> asyncio.Task[list[Version]]:
        return asyncio.create_task(self.documents.commit([Create(Key("claims", name), data)]))

    def free(self) -> None:
        """Answers one of the requests that took the lanes."""
        answer = next(answer for _, answer in self.calls.commits if not answer.done())
        answer.set_result(committed())

    async def end(self) -> None:
        await self.documents.close()
        await asyncio.gather(*self.first, return_exceptions=True)


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def committed(seconds: int = 1) -> Any:
    response = messages.CommitResponse.pb()()
    response.write_results.add().update_time.seconds = seconds
    return response


def written(*codes: int) -> Any:
    response = messages.BatchWriteResponse.pb()()
    for place, code in enumerate(codes):
        response.write_results.add().update_time.seconds = 10 + place if code == OK else 0
        response.status.add().code = code
    return response


def documents_of(request: Any) -> list[str]:
    return [write.update.name.rsplit("/", 1)[1] for write in request.writes]
