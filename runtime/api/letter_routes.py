"""Dead letters over HTTP: pushed by the broker's own topic, read and replayed by callers."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from runtime.api import query_string, run_view
from runtime.api.access import Access
from runtime.api.api_key import Caller, Scope
from runtime.api.body import expect_nothing_yet
from runtime.api.dead_letters import DeadLetters
from runtime.api.letter_record import letter_view
from runtime.api.letter_store import LetterStore
from runtime.api.problem import Problem, unavailable
from runtime.api.replay import Replays, unknown_letter
from runtime.contract import names
from runtime.contract.limits import PUSH_ENVELOPE_BYTES
from runtime.contract.settings.words import Workload
from runtime.contract.states import FailureClass
from runtime.http.body import read_json_body
from runtime.ports.clock import Clock

PAGE: Final = 50
PAGE_MAX: Final = 200
"""Letters of one page, at most; the default is PAGE."""
PUSH_SECONDS: Final = 55
"""Longest work on one push: inside the shortest ack deadline and request timeout, 60 s."""

_LETTER_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterParts:
    """What the routes of dead letters work with."""

    letters: LetterStore
    dead_letters: DeadLetters
    replays: Replays
    clock: Clock


class LetterRoutes:
    """The broker's route, and those of callers with the RUNS scope."""

    def __init__(self, parts: LetterParts) -> None:
        self._parts = parts

    def add_to(self, app: web.Application, access: Access) -> None:
        """Adds the routes; the broker's only where its identity is known."""
        receive = access.for_dead_letters(self.receive)
        if receive is not None:
            app.router.add_post(names.DEAD_LETTERS_PATH, receive, expect_handler=expect_nothing_yet)
        app.router.add_get("/v1/dead-letters", access.with_key(Scope.RUNS, self.list))
        app.router.add_get("/v1/dead-letters/{letter_id}", access.with_key(Scope.RUNS, self.show))
        replay = access.with_key(Scope.RUNS, self.replay, begins_work=True)
        app.router.add_post("/v1/dead-letters/{letter_id}/replay", replay)

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """One push of a dead-letter topic: 204 once its letter is recorded and its run has ended."""
        query_string.only(request, (names.DEAD_LETTER_SOURCE,))
        workload = query_string.word(request, names.DEAD_LETTER_SOURCE, Workload) or Workload.EXECUTION
        clock, dead_letters = self._parts.clock, self._parts.dead_letters
        large = request.clone(client_max_size=PUSH_ENVELOPE_BYTES)
        try:
            async with clock.timeout(PUSH_SECONDS), dead_letters.reading:
                await dead_letters.receive(await read_json_body(large, clock, PUSH_ENVELOPE_BYTES), workload)
        except TimeoutError:
            raise unavailable("dead_letter_timeout", f"the letter was not recorded within {PUSH_SECONDS} s") from None
        return web.Response(status=204)

    async def list(self, request: web.Request, _caller: Caller) -> web.StreamResponse:
        """Letters, newest first."""
        query_string.only(request, ("source", "failure_class", "limit", "before"))
        letters, more = await self._parts.letters.page(
            query_string.word(request, "source", Workload),
            query_string.word(request, "failure_class", FailureClass),
            query_string.cursor(request, "before"),
            query_string.integer(request, "limit", 1, PAGE_MAX, PAGE),
        )
        return web.json_response(
            {"dead_letters": [letter_view(stored.id, stored.letter) for stored in letters], "next_before": more}
        )

    async def show(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """One letter; with `payload=true` its data, which holds the token of a job and needs the ADMIN scope."""
        query_string.only(request, ("payload",))
        wanted = query_string.flag(request, "payload")
        if wanted and not caller.may(Scope.ADMIN):
            raise Problem(403, "scope_missing", f"the key {caller.name} has not the scope `{Scope.ADMIN}`")
        letter_id = _letter_id(request)
        stored = await self._parts.letters.get(letter_id)
        if stored is None:
            raise unknown_letter(letter_id)
        answer = letter_view(letter_id, stored.letter)
        if wanted:
            payload = await self._parts.letters.payload(letter_id)
            answer["payload"] = payload and {
                "encoding": payload.encoding, "base64": base64.b64encode(payload.data).decode(),
            }  # fmt: skip
        return web.json_response(answer, headers={"Cache-Control": "no-store"})

    async def replay(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Begins the next generation of the letter's run."""
        query_string.only(request, ())
        record = await self._parts.replays.replay(_letter_id(request), caller.name)
        location = {"Location": f"/v1/runs/{record.run_id}"}
        return web.json_response(run_view.whole(record), status=202, headers=location)


def _letter_id(request: web.Request) -> str:
    letter_id = request.match_info["letter_id"]
    if _LETTER_ID.fullmatch(letter_id) is None:
        raise unknown_letter(letter_id)
    return letter_id
