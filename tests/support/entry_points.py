"""Entry points as users write them, good and bad. Each runs in a process of its own."""

# ruff: noqa: T201 - printing is what some of them are for

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from runtime.contract.limits import EVENT_BYTES, INLINE_PAYLOAD_BYTES
from runtime.execution.process.child import RunningJob

not_a_function = 5


def echo(job: RunningJob) -> object:
    return job.input


async def echo_later(job: RunningJob) -> object:
    await asyncio.sleep(0)
    job.emit("chunk", {"later": True})
    return job.input


def _descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, not files
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - targets that are no paths
        except OSError:
            continue  # of the listing itself
    return found


def facts(job: RunningJob) -> dict[str, Any]:
    """What the process can see of its surroundings."""
    return {
        "run_id": job.run_id,
        "attempt": job.attempt,
        "seconds_left": job.seconds_left,
        "environment": sorted(os.environ),
        "initial": Path("/proc/self/environ").read_bytes().decode().split("\0"),
        "descriptors": _descriptors(),
        "scratch": os.environ["TMPDIR"],
        "group": os.getpgid(0) == os.getpid(),
        "nice": os.nice(0),
        "threads": threading.active_count(),
    }


def events(job: RunningJob) -> None:
    for number in range(int(job.input)):
        job.emit("tick", number)


def large_events(job: RunningJob) -> None:
    for _ in range(int(job.input)):
        job.emit("tick", "x" * (EVENT_BYTES - 2))


def bad_events(job: RunningJob) -> list[str]:
    """What `emit` says to events that cannot be sent."""
    circle: list[object] = []
    circle.append(circle)
    said = []
    for event_type, payload in [
        ("tick", "x" * EVENT_BYTES), ("tick", float("nan")), ("tick", b"x"), ("tick", circle),
        ("Tick", 1), ("completed", 1), ("tick\ndata: x", 1),
    ]:  # fmt: skip
        try:
            job.emit(event_type, payload)
        except ValueError as error:
            said.append(str(error))
    return said


def answers(job: RunningJob) -> object:
    return {"status_code": job.input, "error": "as asked"}


def raises(_job: RunningJob) -> None:
    raise ValueError("first line\nsecond line")


def leaks(job: RunningJob) -> None:
    """Says its input in every way that is not meant for a caller."""
    print("fetching", job.input)
    print("fetching", job.input, file=sys.stderr, flush=True)
    raise ValueError(f"403 for {job.input}")


def exits(job: RunningJob) -> None:
    sys.exit(job.input)


def vanishes(job: RunningJob) -> None:
    os._exit(int(job.input))


def spins(_job: RunningJob) -> None:
    print("spinning", flush=True)
    while True:
        pass


def sleeps(_job: RunningJob) -> None:
    time.sleep(3600)


def ignores_terminate(job: RunningJob) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job.emit("ready")
    time.sleep(3600)


def crashes(_job: RunningJob) -> None:
    ctypes.string_at(0)


def kills_itself(_job: RunningJob) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_guard(_job: RunningJob) -> None:
    Path(os.environ["TMPDIR"]).rmdir()  # nobody else can, after this
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)


def takes_memory(_job: RunningJob) -> int:
    blocks = []
    while True:
        blocks.append(bytearray(64 * 1024 * 1024))


def returns(job: RunningJob) -> str:
    return "x" * int(job.input)


def returns_too_much(_job: RunningJob) -> str:
    return "x" * INLINE_PAYLOAD_BYTES


def returns_no_json(_job: RunningJob) -> object:
    return {"when": float("inf")}


def prints(job: RunningJob) -> None:
    print("one\ntwo")
    print("to stderr", file=sys.stderr)
    sys.stdout.write("without end of line")
    sys.stdout.flush()
    os.write(1, b"\xff\0raw\n")
    subprocess.run(["/bin/echo", "from a child"], check=True)


def prints_without_end(job: RunningJob) -> str:
    for number in range(int(job.input)):
        print(f"line {number} {'x' * 100}")
    return "printed"


def prints_one_endless_line(_job: RunningJob) -> str:
    print("x" * 50_000)
    return "printed"


def _daemon(pids: str, seconds: float = 3600) -> None:
    """A grandchild that leaves the session and the parent, as daemons do."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with Path(pids).open("a") as stream:
                stream.write(f"{os.getpid()}\n")
            time.sleep(seconds)
        os._exit(0)
    os.wait()


def leaves_processes(job: RunningJob) -> str:
    pids = job.input["pids"]
    subprocess.Popen(["/bin/sleep", "3600"])
    _daemon(pids)
    threading.Thread(target=time.sleep, args=(3600,)).start()
    while not Path(pids).exists() or not Path(pids).read_text():
        time.sleep(0.01)
    if job.input["hang"]:
        time.sleep(3600)
    return "done"


def writes_garbage(job: RunningJob) -> None:
    """Finds the channel that is not its own, and writes to it."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > 2:
            try:
                os.write(int(name), bytes.fromhex(str(job.input)))
            except OSError:
                continue
    time.sleep(3600)


def leaves_a_file(_job: RunningJob) -> str:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "left"
    path.write_text("x")
    return str(path)


def has_an_effect_in_the_end(job: RunningJob) -> None:
    time.sleep(job.input["seconds"])
    with Path(job.input["path"]).open("a") as stream:
        stream.write("effect\n")
