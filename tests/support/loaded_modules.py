"""Prints the modules that a fresh interpreter has loaded once a role is ready to serve, without serving.

python -c "from tests.support.loaded_modules import print_role; print_role('worker')" < environment.json
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import sys


def print_role(role: str) -> None:
    """Reads the role's settings from a JSON object on standard input."""
    asyncio.run(_build(role, json.load(sys.stdin)))
    _print()


def print_packages(*names: str) -> None:
    """Imports packages with all that is in them."""
    for name in names:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    _print()


async def _build(role: str, environ: dict[str, str]) -> None:
    # With wiring, this is what runtime/__main__.py imports.
    importlib.import_module("runtime.process")
    from runtime import roles, wiring
    from runtime.adapters.clock import SystemClock
    from runtime.observability.metrics import Metrics
    from runtime.server import Lifecycle

    settings = roles.read_settings(roles.RoleName(role), environ)
    clock = SystemClock()
    own = roles.Process(clock=clock, lifecycle=Lifecycle(clock), metrics=Metrics(), revision="test")
    async with wiring.google(settings, clock) as outside:
        await roles.build(settings, outside, own)
        for connection in (outside.documents, outside.publisher):
            if connection is not None:
                await connection.close()


def _print() -> None:
    sys.stdout.write("\n".join(sorted(sys.modules)))
