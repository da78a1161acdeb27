"""FastAPI as its documentation writes it, served by uvicorn with uvloop and httptools."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from bench.peers.events import PAYLOAD, event
from bench.peers.verification import Jobs, PushTokens, Refused
from bench.setup import Setup

setup = Setup.read()
tokens = PushTokens(Path(setup.jwks).read_bytes(), setup.audience, setup.account)
jobs = Jobs(setup.job_public)


class Message(BaseModel):
    """The broker's message."""

    messageId: str  # noqa: N815 - the broker's spelling
    data: str = ""
    attributes: dict[str, str] = {}
    publishTime: str = ""  # noqa: N815 - the broker's spelling


class Envelope(BaseModel):
    """A push."""

    message: Message
    subscription: str
    deliveryAttempt: int | None = None  # noqa: N815 - the broker's spelling


async def push(envelope: Envelope, authorization: Annotated[str | None, Header()] = None) -> Response:
    """Decodes, verifies, acknowledges."""
    try:
        tokens.check(authorization)
    except Refused:
        raise HTTPException(401) from None
    base64.b64decode(envelope.message.data, validate=True)
    if envelope.subscription != setup.subscription:
        raise HTTPException(403)
    return Response(status_code=204)


async def execute(request: Request) -> dict[str, Any]:
    """Verifies a job and answers as if it had run."""
    job = json.loads(await request.body())
    try:
        jobs.check(job)
    except Refused:
        raise HTTPException(401) from None
    return {"run_id": job["run_id"], "status": "completed", "state": "succeeded", "status_code": 200}


async def stream(request: Request) -> StreamingResponse:
    """So many events."""
    count = (await request.json())["payload"]

    async def events() -> AsyncIterator[bytes]:
        for number in range(count):
            yield event(number, PAYLOAD)

    return StreamingResponse(events(), media_type="application/x-ndjson")


app = FastAPI()
app.add_api_route("/", push, methods=["POST"], status_code=204, response_model=None)
app.add_api_route("/execute", execute, methods=["POST"])
app.add_api_route("/execute/stream", stream, methods=["POST"], response_model=None)
