"""Serves one side of the engine's protocol from this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import grpc

Servicer = TypeVar("Servicer")


@contextmanager
def served(add: Callable[[Servicer, grpc.Server], None], servicer: Servicer) -> Iterator[int]:
    """Serves on this host only, one call at a time; the end waits for a call that is under way.

    Args:
        add: the protocol's `add_..._to_server`.
        servicer: answers the calls.

    Returns:
        the port.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        server = grpc.server(thread)
        add(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(grace=None).wait()
