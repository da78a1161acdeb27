"""`holdfast up`: the local stack, a first run of each kind of job, and an address to go on with."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shlex
import signal
import socket
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console

from cli import tables
from cli.client import Client
from cli.endpoint import LOCAL_ENDPOINT, Endpoint
from cli.failure import CommandFailed, ExitCode
from cli.service_logs import ServiceLogs
from runtime.contract.errors import HoldfastError
from runtime.contract.states import RunState
from sandbox.engine.deployment import Engine
from sandbox.local_keys import write_private
from sandbox.local_stack import LocalOptions, LocalStack

FIRST_RUN_SECONDS: Final = 60
"""Longest that a first run may take before the command says so."""
HELLO: Final = Path("jobs/hello.json")

T = TypeVar("T")


def first_jobs(hello: Path = HELLO) -> list[dict[str, Any]]:
    """One job of each kind: a flow, and a Python entry point."""
    return [
        {"engine": "flow", "flow": json.loads(hello.read_text()), "input": {"names": ["Ada", "Grace"]}},
        {"engine": "word-count", "input": {"text": "to hold fast is to hold on and not to let go"}},
    ]


async def bring_up(out: Console, *, once: bool, port: int, engine: Engine = Engine.EMBEDDED) -> ExitCode:
    """Runs the local stack until it is interrupted, or, with `once`, until its first runs have ended.

    Raises:
        CommandFailed: the stack did not start, or its address is taken.
    """
    check_port(port)
    stopped = _stop_event()
    state_dir = LOCAL_ENDPOINT.parent
    with ExitStack() as files:
        files.enter_context(_held(state_dir))
        logs = files.enter_context(ServiceLogs(state_dir / "logs", out))
        options = LocalOptions(state_dir=state_dir, port=port, engine=engine, sink=logs.line)
        with out.status("Starting") as status:
            stack = LocalStack(options, lambda step: status.update(f"Starting: {step}"))
            try:
                await _unless(stopped, stack.__aenter__())
            except (HoldfastError, OSError) as error:
                raise CommandFailed(_one_line(error), ExitCode.NOT_STARTED) from error
        try:
            return await _use(stack, out, stopped, once=once)
        finally:
            LOCAL_ENDPOINT.unlink(missing_ok=True)
            with out.status("Stopping"):
                await stack.__aexit__(None, None, None)


def check_port(port: int) -> None:
    """Whether the API can have a port, before seconds go into what stands behind it; 0 always can.

    Raises:
        CommandFailed: it cannot.
    """
    with socket.socket() as wanted:
        # As the API's own socket: connections of the last stack that are still closing do not hold the port.
        wanted.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            wanted.bind(("127.0.0.1", port))
        except OSError as error:
            raise CommandFailed(
                f"port {port} cannot be had ({error.strerror}): choose another, `make up PORT=n`, or leave PORT out "
                "and take a free one",
                ExitCode.NOT_STARTED,
            ) from error


async def _use(stack: LocalStack, out: Console, stopped: asyncio.Event, *, once: bool) -> ExitCode:
    endpoint = Endpoint(stack.url, stack.keys.api_key)
    write_private(LOCAL_ENDPOINT, json.dumps({"url": endpoint.url, "key": endpoint.key}))
    try:
        async with asyncio.timeout(FIRST_RUN_SECONDS):
            ended = await _unless(stopped, _first_runs(endpoint, out))
    except TimeoutError:
        raise CommandFailed(
            f"the first run did not end within {FIRST_RUN_SECONDS} s; see {LOCAL_ENDPOINT.parent}/logs",
            ExitCode.RUN_NOT_SUCCEEDED,
        ) from None
    if once:
        return ended
    _say_what_next(endpoint, out)
    await stopped.wait()
    return ExitCode.OK


async def _first_runs(endpoint: Endpoint, out: Console) -> ExitCode:
    code = ExitCode.OK
    async with Client(endpoint) as client:
        for job in first_jobs():
            record = await client.submit(job)
            out.print(f"\n[bold]{job['engine']}[/bold] {record['run_id']}")
            async for item in client.events(record["run_id"]):
                out.print(tables.event(item))
            record = await client.run(record["run_id"])
            out.print("    ", tables.state(record["state"]), _result(record))
            if record["state"] != RunState.SUCCEEDED:
                code = ExitCode.RUN_NOT_SUCCEEDED
    return code


def _result(record: Mapping[str, Any]) -> str:
    if record["state"] == RunState.SUCCEEDED:
        return json.dumps(record["result"], ensure_ascii=False)
    return f"{record['failure_class']}: {record['error']}"


def _say_what_next(endpoint: Endpoint, out: Console) -> None:
    job = {"engine": "word-count", "input": {"text": "your words"}}
    curl = (
        f"curl -s {endpoint.url}/v1/runs -H 'Authorization: Bearer {endpoint.key}' "
        f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(job))}"
    )
    out.print(f"\nThe API is at [bold]{endpoint.url}[/bold]. Try:\n")
    out.print(f"  {curl}\n", soft_wrap=True, highlight=False, markup=False)
    out.print('  .venv/bin/holdfast run jobs/hello.json --input \'{"names": ["you"]}\' --follow\n', soft_wrap=True)
    out.print(f"Logs are in {LOCAL_ENDPOINT.parent}/logs. Ctrl-C stops everything.")


@contextmanager
def _held(state_dir: Path) -> Iterator[None]:
    """Keeps a second command out of a state folder, before it touches the first one's files."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state_dir / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(
                f"{state_dir} is in use: this checkout's stack already runs", ExitCode.NOT_STARTED
            ) from None
        yield


def _stop_event() -> asyncio.Event:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def _unless(stopped: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work; a signal ends it first.

    Raises:
        CommandFailed: interrupted.
    """
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({doing, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return await doing
        raise CommandFailed("interrupted", ExitCode.INTERRUPTED)
    finally:
        for task in (doing, waiting):
            task.cancel()
        await asyncio.wait({doing, waiting})


def _one_line(error: HoldfastError | OSError) -> str:
    return error.line() if isinstance(error, HoldfastError) else str(error)
