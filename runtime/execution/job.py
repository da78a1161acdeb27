"""A job that was verified and may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
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
    spec: Mapping[str, object] = field(repr=False)
    input: object = field(repr=False)
    timeout: timedelta
    max_attempts: int
    callback_url: str
    token: str = field(repr=False)
