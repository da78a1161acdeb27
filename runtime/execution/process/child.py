"""The process of one run: nothing of the service is in it but a job to read and a channel to answer on."""

from __future__ import annotations

import importlib
import inspect
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from runtime.contract.limits import EVENT_BYTES, INLINE_PAYLOAD_BYTES, MIB
from runtime.execution.event import event_type_fault
from runtime.execution.process.frames import FrameKind, pack
from runtime.execution.process.prctl import die_with_parent, gain_no_privileges
from runtime.execution.values import ValueRefused, decode, encode, one_line
from runtime.observability.redaction import redact_text

NICENESS: Final = 5
"""The service's loop, which renews leases, comes first where both want the same core."""
REPORT_BYTES: Final = 8 * MIB
"""Of a run's memory, what is left to say that the rest is used up."""
TRACEBACK_CHARACTERS: Final = 16 * 1024


class Descriptors(NamedTuple):
    """What a run's process is given."""

    job: int
    frames: int
    stdout: int
    stderr: int


class RunningJob:
    """The job as user code sees it.

    Attributes:
        run_id: stable over attempts: the key for effects that must happen once.
        attempt: 1 for the first attempt.
        input: the caller's JSON value.
    """

    def __init__(self, job: dict[str, Any], channel: Channel) -> None:
        self.run_id: str = job["run_id"]
        self.attempt: int = job["attempt"]
        self.input: Any = job["input"]
        self._ends: float = time.monotonic() + job["seconds_left"]
        self._channel = channel

    @property
    def seconds_left(self) -> float:
        """Time until the run's deadline, at which the process is stopped; 0 when it is over."""
        return max(0.0, self._ends - time.monotonic())

    def emit(self, event_type: str, payload: object = None) -> None:
        """Sends an event of the run; waits while the run's stream is full. May be called from any thread.

        Args:
            event_type: 1 to 64 lower case letters, digits and _; the platform's own names are refused.
            payload: JSON value of at most 64 KiB.

        Raises:
            ValueError: one of both is not allowed; says why.
        """
        fault = event_type_fault(event_type)
        if fault is not None:
            raise ValueError(fault)
        try:
            encoded = encode(payload, EVENT_BYTES)
        except ValueRefused as error:
            raise ValueError(f"the payload of {event_type!r}: {error}") from None
        self._channel.send(FrameKind.EVENT, f'"event_type":"{event_type}","payload":', encoded)


class ServiceGone(BaseException):
    """Nobody reads the channel any more; user code is not meant to catch this."""


class Channel:
    """The way back to the service."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, kind: FrameKind, name: str, value: bytes) -> None:
        """Writes one frame: its kind, and one or more members of which the last one's value is already encoded."""
        frame = memoryview(pack(f'{{"kind":"{kind}",{name}'.encode() + value + b"}"))
        with self._lock:
            try:
                while frame:
                    frame = frame[os.write(self._descriptor, frame) :]
            except BrokenPipeError:
                raise ServiceGone from None


class NotFound(Exception):
    """The module or function of an entry point is not there."""


def main(descriptors: Descriptors, guard: int, scratch: str) -> NoReturn:
    """The life of a run's process, just forked by its guard. Ends without the interpreter's own shutdown, as every
    forked process must: threads and exit handlers of user code do not hold it up.
    """
    code = 1
    try:
        _settle_in(descriptors, guard, scratch)
        channel = Channel(descriptors.frames)
        job = _read_job(descriptors.job)
        _limit_memory(job["memory_bytes"])
        _work(job, channel)
        code = 0
    except ServiceGone:
        pass
    except BaseException:  # noqa: BLE001 - nothing is above this to see it; stderr is the run's log
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def load(entry_point: str) -> Callable[[RunningJob], object]:
    """The function of `module.path:function`.

    Raises:
        NotFound: names what was looked for.
        BaseException: whatever the module raises while it is imported.
    """
    module_name, _, function_name = entry_point.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise
        raise NotFound(f"there is no module {missing!r}, looked for as part of {entry_point!r}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        what = "cannot be called" if hasattr(module, function_name) else "is not there"
        raise NotFound(f"{function_name!r} {what} in module {module_name!r}, looked for as part of {entry_point!r}")
    found: Callable[[RunningJob], object] = function
    return found


def _settle_in(descriptors: Descriptors, guard: int, scratch: str) -> None:
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != guard:
        os._exit(1)
    gain_no_privileges()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (descriptors.stdout, 1), (descriptors.stderr, 2)):
        os.dup2(source, target)
    _close_others({descriptors.job, descriptors.frames})
    os.environ.update(HOME=scratch, TMPDIR=scratch)
    tempfile.tempdir = scratch  # the guard has looked it up before, and the answer came along with the fork
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (1, 2)  # opened for the life of the process; the fork server's own belong to other files
    )
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _close_others(kept: set[int]) -> None:
    for entry in os.listdir("/dev/fd"):  # noqa: PTH208 - names are numbers of descriptors, not files
        descriptor = int(entry)
        if descriptor in kept:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 - the only form it has
        elif descriptor > 2:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the descriptor of this listing itself


def _read_job(descriptor: int) -> dict[str, Any]:
    with os.fdopen(descriptor, "rb") as stream:
        job = decode(stream.read())
    if not isinstance(job, dict):
        raise TypeError("the job is not an object")
    return job


def _limit_memory(limit: int) -> None:
    """Limits what the process may write to, not its addresses: libraries reserve far more of those than they use."""
    if limit:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        hard = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(resource.RLIMIT_DATA, (max(0, hard - REPORT_BYTES), hard))


def _work(job: dict[str, Any], channel: Channel) -> None:
    try:
        function = load(job["entry_point"])
        if job["check"]:
            channel.send(FrameKind.FOUND, '"error":', b"null")
            return
        output = function(RunningJob(job, channel))
        if inspect.iscoroutine(output):
            import asyncio

            output = asyncio.run(output)
        encoded = encode(output, INLINE_PAYLOAD_BYTES)
    except NotFound as error:
        channel.send(FrameKind.NOT_FOUND, '"error":', _quoted(str(error)))
    except ValueRefused as error:
        if error.code == "value_too_large":
            channel.send(FrameKind.TOO_LARGE, '"error":', _quoted(str(error)))
        else:
            channel.send(FrameKind.RAISED, '"error":', _quoted(f"the returned value cannot be sent: {error}"))
    except ServiceGone:
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of user code are failures too
        _report(error, channel)
    else:
        _flush()
        channel.send(FrameKind.RESULT, '"output":', encoded)


def _report(error: BaseException, channel: Channel) -> None:
    if isinstance(error, MemoryError):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    text = redact_text("".join(traceback.format_exception(error)))[-TRACEBACK_CHARACTERS:]
    payload = encode({"level": "error", "message": text.encode("utf-8", "replace").decode()}, EVENT_BYTES)
    channel.send(FrameKind.EVENT, '"event_type":"log","payload":', payload)
    line = one_line(f"{type(error).__name__}: {error}".removesuffix(": "))
    channel.send(FrameKind.RAISED, '"error":', _quoted(line))


def _quoted(text: str) -> bytes:
    return encode(text.encode("utf-8", "replace").decode(), EVENT_BYTES)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
