"""Runs an inline program for the engine; the SDK's own server leaves its event loop open when the engine gives up."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
from pulumi import log
from pulumi.automation._server import LanguageServer
from pulumi.errors import RunError
from pulumi.runtime import reset_options, run_in_stack, set_all_config
from pulumi.runtime.proto import engine_pb2, language_pb2
from pulumi.runtime.settings import get_engine


class ProgramServer(LanguageServer):
    """The SDK's server, but what an engine that is gone left waiting ends with the run, and nobody is told of it."""

    def Run(self, request: Any, _: grpc.ServicerContext | None) -> language_pb2.RunResponse:  # noqa: N802 - the protocol's name
        """Runs the program once."""
        return contextvars.copy_context().run(self._run, request)

    def _run(self, request: Any) -> language_pb2.RunResponse:
        reset_options(
            project=request.project,
            monitor_address=request.monitor_address,
            engine_address=request.args[0],
            stack=request.stack,
            parallel=request.parallel,
            preview=request.dryRun,
            organization=request.organization or "organization",
        )
        _drop_debug_messages(get_engine())
        set_all_config(dict(request.config), list(request.configSecretKeys))
        try:
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                # Each call to the engine waits in a thread.
                loop.set_default_executor(ThreadPoolExecutor(max_workers=4 * max(request.parallel, 1)))
                loop.set_exception_handler(lambda _, __: None)
                runner.run(run_in_stack(self.program))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return language_pb2.RunResponse()  # the engine has given up, and has said why
            return _refused(f"the engine does not answer: {error}")
        except RunError as error:
            return _refused(str(error))
        except Exception:  # noqa: BLE001 - the program may raise anything, and the engine shows what
            return _refused(traceback.format_exc())
        return language_pb2.RunResponse()


def _drop_debug_messages(engine: Any) -> None:
    """The SDK tells of each step of each resource, waits each time, and the engine throws it away."""
    tell = engine.Log
    engine.Log = lambda request: None if request.severity == engine_pb2.DEBUG else tell(request)


def _refused(message: str) -> language_pb2.RunResponse:
    with suppress(grpc.RpcError):
        log.error(message)
    return language_pb2.RunResponse(error=message)
