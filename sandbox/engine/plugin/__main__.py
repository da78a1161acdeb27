"""Serves the stand-in provider to the engine that started it: `python -m sandbox.engine.plugin WORLD_DIR ENGINE ...`.

The engine reads the port from the first line of the output. The process ends with the engine.
"""

from __future__ import annotations

import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from sandbox.engine.plugin.servicer import StandIn

_LOOK_AGAIN_SECONDS = 2.0


def serve(world_dir: Path) -> None:
    """Serves until the engine is gone."""
    # One operation makes little garbage, and Google's SDK makes hundreds of thousands of objects that stay.
    gc.disable()
    engine = os.getppid()
    # One thread: the world is read, changed and written by one call at a time.
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(StandIn(world_dir, version("pulumi_gcp")), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    while server.wait_for_termination(timeout=_LOOK_AGAIN_SECONDS):
        if os.getppid() != engine:
            server.stop(grace=None)
            return


serve(Path(sys.argv[1]))
