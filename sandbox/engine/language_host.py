"""Runs the Python program of a plain `pulumi` command: the SDK's own server for programs, behind a port.

Started by the engine as `pulumi-language-python`; it reads the port from the first line of the output.
"""

from __future__ import annotations

import gc
import runpy
import signal
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2_grpc


class LanguageHost(LanguageServer):
    """Runs the `__main__.py` of whatever folder the engine names."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - the protocol's name
        """Runs a program once."""
        folder = Path(request.info.program_directory or request.pwd)
        entry = request.info.entry_point
        main = folder / ("__main__.py" if entry in {"", "."} else entry)

        def program() -> None:
            # The project's folder, so that the program is found as a package, and the program's own.
            sys.path[:0] = [request.info.root_directory or request.pwd, str(folder)]
            runpy.run_path(str(main), run_name="__main__")

        self.program = program
        return super().Run(request, context)  # type: ignore[no-untyped-call]  # the SDK has no types here


def main() -> None:
    """Serves until the engine interrupts or ends it."""
    # One run makes little garbage, and Google's SDK makes hundreds of thousands of objects that stay.
    gc.disable()
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    signal.signal(signal.SIGINT, _end)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


def _end(_: int, __: types.FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
