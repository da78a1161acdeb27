"""aiohttp with Google's Firestore client: a push worker as it is usually written, and a stream of one write an event.

python -m bench.peers.aiohttp_app worker|stream PORT
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web

from bench.peers.verification import PushTokens, Refused
from bench.setup import Setup


def worker(setup: Setup) -> web.Application:
    """Verify, decode, claim, complete, 204. The start reads the store once, as ours does."""
    from google.cloud.firestore import AsyncClient

    tokens = PushTokens(Path(setup.jwks).read_bytes(), setup.audience, setup.account)
    app = web.Application()
    client: Any = None

    async def connect(_app: web.Application) -> None:
        nonlocal client
        client = AsyncClient(project="bench-project")
        await client.collection("claims").document("self-check").get()

    async def push(request: web.Request) -> web.Response:
        try:
            tokens.check(request.headers.get("Authorization"))
        except Refused:
            return web.Response(status=401)
        envelope = json.loads(await request.read())
        message = envelope["message"]
        base64.b64decode(message["data"], validate=True)
        if envelope["subscription"] != setup.subscription:
            return web.Response(status=403)
        now = int(time.time() * 1000)
        claim = client.collection("claims").document(message["messageId"])
        record = {
            "message_id": message["messageId"], "subscription": setup.subscription, "workload": "execution",
            "state": "in_progress", "owner": "peer", "token": "0123456789abcdef", "attempts": 1, "excused": 0,
            "claimed_at_ms": now, "heartbeat_at_ms": now, "outcome_code": "", "failure_class": "", "schema": 1,
        }  # fmt: skip
        written = await claim.create(record, retry=None, timeout=60)
        option = client.write_option(last_update_time=written.update_time)
        await claim.update({**record, "state": "completed"}, option=option, retry=None, timeout=60)
        return web.Response(status=204)

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ready")

    app.on_startup.append(connect)
    app.router.add_post("/", push)
    app.router.add_get("/health/ready", ready)
    return app


def stream(_setup: Setup) -> web.Application:
    """One write an event; with a pause between them each event says when it was made."""
    from bench.peers.events import PAYLOAD, event

    async def events(request: web.Request) -> web.StreamResponse:
        wanted = (await request.json())["payload"]
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for number in range(wanted["count"]):
            await asyncio.sleep(wanted["pause"])
            await response.write(event(number, {"made": time.perf_counter_ns(), **PAYLOAD}))
        await response.write_eof()
        return response

    app = web.Application()
    app.router.add_post("/execute/stream", events)
    return app


async def _serve(app: web.Application, port: int) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve({"worker": worker, "stream": stream}[sys.argv[1]](Setup.read()), int(sys.argv[2])))
