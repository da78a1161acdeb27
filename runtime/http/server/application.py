"""What a server serves."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from runtime.http.server.answer import Answer
from runtime.http.server.request import Request


class Application(Protocol):
    """The routes of a service, and what it needs open for them."""

    def handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        """Answers a request: at once, or as work that goes on in a task of its own, also where the caller hangs up.

        Nothing of the body was waited for; `request.body` asks for it when it is read.
        """
        ...

    def surprised(self, error: BaseException) -> Answer:
        """The answer where `handle` has failed."""
        ...

    def malformed(self, status: int, kind: str) -> Answer:
        """The answer to what is no request; `kind` is a closed word."""
        ...

    async def start(self) -> None:
        """Opens and checks what the routes need, before anything is served."""
        ...

    async def close(self) -> None:
        """Closes what was opened, also after a start that failed or was broken off."""
        ...
