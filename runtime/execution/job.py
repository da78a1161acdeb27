"""A job that was verified and may run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from msgspec import Struct

SELECTORS: Final = ("flow_version", "flow_etag", "artifact")
"""Members that would name a definition kept elsewhere. None is: see docs/decisions/0011."""


class Job(Struct, frozen=True, kw_only=True):
    """What one attempt needs of a verified payload.

    Attributes:
        run_id: the run.
        job_id: its generation, `run_id.generation`.
        app_id: the caller's application.
        engine: name of the engine.
        spec: the engine's definition; empty for an entry point.
        input: the caller's JSON value.
        timeout: longest that the engine may take.
        max_attempts: attempts that the run asks for.
        callback_url: base address of the API, from the token's claim.
        token: the job token, sent as bearer with every callback; never in a repr.
    """

    run_id: str
    job_id: str
    app_id: str
    engine: str
    spec: Mapping[str, object]
    input: object
    timeout: timedelta
    max_attempts: int
    callback_url: str
    token: str

    def __repr__(self) -> str:
        return f"Job(run_id={self.run_id!r}, job_id={self.job_id!r}, app_id={self.app_id!r}, engine={self.engine!r})"


def selectors_in(payload: Mapping[str, object]) -> list[str]:
    """The members of a payload that select another definition than the one in its `spec`; a null selects none."""
    return [name for name in SELECTORS if payload.get(name) is not None]
