"""A small role for tests of the Cloud Run front: `python -m tests.support.cloud_role ROLE SOCKET`.

Its behaviour at start comes from its declared environment: FAIL (lines of a refused start), EXIT (exit code at once),
START_SECONDS, STUBBORN (ignores SIGTERM), CHILD (starts a process of its own), NOT_LIVE_AFTER (requests).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.launch import main


class Role:
    """The application and what it remembers."""

    def __init__(self, config: InstanceConfig, environ: Mapping[str, str]) -> None:
        self.config = config
        self.environ = environ
        self.requests = 0
        self.sick = False
        self.unready = False
        self.disconnects = 0
        self.draining = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/health/ready", self.ready)
        app.router.add_get("/health/live", self.live)
        app.router.add_get("/sleep/{seconds}", self.sleep)
        app.router.add_get("/stream/{count}", self.stream)
        app.router.add_post("/upload", self.upload)
        app.router.add_post("/refuse", self.refuse)
        app.router.add_post("/set/{name}/{value}", self.set)
        app.router.add_get("/crash", self.crash)
        app.router.add_get("/cut", self.cut)
        app.router.add_get("/about", self.about)
        app.router.add_route("*", "/{tail:.*}", self.echo)
        return app

    async def ready(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.unready else 200)

    async def live(self, _: web.Request) -> web.Response:
        return web.Response(status=500 if self.sick else 200)

    async def sleep(self, request: web.Request) -> web.Response:
        try:
            await asyncio.sleep(float(request.match_info["seconds"]))
        except asyncio.CancelledError:
            self.disconnects += 1
            raise
        return web.json_response({"pid": os.getpid()})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Numbered lines at once, and the last one when the process drains."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for number in range(int(request.match_info["count"])):
            await response.write(f"{number}\n".encode())
        await self.draining.wait()
        await response.write(b"drained\n")
        return response

    async def upload(self, request: web.Request) -> web.StreamResponse:
        """Answers each chunk of the body with its length, before the next one comes."""
        response = web.StreamResponse()
        await response.prepare(request)
        async for chunk in request.content.iter_any():
            await response.write(f"{len(chunk)}\n".encode())
        return response

    async def refuse(self, _: web.Request) -> web.Response:
        """Answers before the body is read."""
        return web.Response(status=413)

    async def set(self, request: web.Request) -> web.Response:
        setattr(self, request.match_info["name"], request.match_info["value"] == "1")
        return web.Response()

    async def crash(self, _: web.Request) -> web.Response:
        os.kill(os.getpid(), signal.SIGKILL)
        return web.Response()

    async def cut(self, request: web.Request) -> web.StreamResponse:
        """Begins a response and then ends the process."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half of it")
        os.kill(os.getpid(), signal.SIGKILL)
        return response

    async def about(self, _: web.Request) -> web.Response:
        config = self.config.to_json() | {"postgres_dsn": ""}
        state = {"pid": os.getpid(), "requests": self.requests, "disconnects": self.disconnects, "cwd": str(Path.cwd())}
        return web.json_response(
            {**state, "environment": dict(os.environ), "declared": dict(self.environ), "config": config}
        )

    async def echo(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        seen = {
            "method": request.method,
            "path": request.raw_path,
            "headers": [[name.decode(), value.decode()] for name, value in request.raw_headers],
            "body": body.decode("latin-1"),
            "pid": os.getpid(),
        }
        answer = web.json_response(seen, status=int(request.query.get("status", "200")))
        answer.headers.extend({"X-Twice": "1"})
        answer.headers.add("X-Twice", "2")
        return answer


def run_role(role: str, config: InstanceConfig, listener: socket.socket, environ: Mapping[str, str]) -> int:
    """See sandbox.cloud_run.launch.RunRole."""
    sys.stdout.write(json.dumps({"event": "starting", "role": role}) + "\n")
    sys.stdout.flush()
    if "FAIL" in environ:
        sys.stderr.write(environ["FAIL"].replace("|", "\n") + "\n")
        return 78
    if "EXIT" in environ:
        sys.stderr.write("Traceback: something broke\n")
        return int(environ["EXIT"])
    if "CHILD" in environ:
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(600)  # {environ['CHILD']}"])
    asyncio.run(_serve(Role(config, environ), listener, environ))
    return 0


async def _serve(role: Role, listener: socket.socket, environ: Mapping[str, str]) -> None:
    stop = asyncio.Event()
    if "STUBBORN" not in environ:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    await asyncio.sleep(float(environ.get("START_SECONDS", "0")))
    runner = web.AppRunner(role.app(), access_log=None, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await stop.wait()
    role.draining.set()
    await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main(run_role=run_role))
