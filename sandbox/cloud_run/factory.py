"""Makes the instances of declared services."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runtime.adapters.query_rules import Indexes
from runtime.contract.names import METADATA_URL
from runtime.ports.clock import Clock
from sandbox.cloud_run.admission import Identity
from sandbox.cloud_run.declared import DeclaredService
from sandbox.cloud_run.environment import environment
from sandbox.cloud_run.faults import FaultOrders
from sandbox.cloud_run.instance import Instance, InstancePlan
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.cloud_run.logs import LogSink
from sandbox.cloud_run.process import Launcher
from sandbox.network import Address, Hosts
from sandbox.sql.documents import StoreAccess
from sandbox.world import INDEX, World

PLATFORM: Final = "*.run.app"
METADATA_HOST: Final = METADATA_URL.split("/")[2]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the sandbox every instance may reach.

    Attributes:
        hosts: all hosts but the services' own and the metadata server; read when an instance starts.
        postgres_dsn: the database behind the document store; never logged.
        pubsub_port: gRPC port of Pub/Sub on loopback.
        code_paths: folders of the user's own engines.
    """

    hosts: Hosts = field(default_factory=Hosts)
    postgres_dsn: str = field(default="", repr=False)
    pubsub_port: int = 0
    code_paths: tuple[str, ...] = ()


class InstanceFactory:
    """Knows everything that an instance is made of.

    Args:
        world, identity, clock: see CloudRun.
        surroundings: what the instances may reach.
        launcher: starts their processes.
        sink: gets their output.
        faults: orders for the next ones.
        linger: see CloudRun.
        folder: folders of the instances are made in it.
        entrances: address by which services are called, by whether the caller's network covers them.
    """

    def __init__(
        self,
        world: World,
        identity: Identity,
        clock: Clock,
        *,
        surroundings: Surroundings,
        launcher: Launcher,
        sink: LogSink,
        faults: FaultOrders,
        linger: float,
        folder: Path,
        entrances: Callable[[bool], Address],
    ) -> None:
        self._world = world
        self._identity = identity
        self._clock = clock
        self._surroundings = surroundings
        self._launcher = launcher
        self._sink = sink
        self._faults = faults
        self._linger = linger
        self._folder = folder
        self._entrances = entrances
        self._numbers = itertools.count(1)

    async def make(self, service: DeclaredService, on_change: Callable[[Instance], None]) -> Instance:
        """A new instance, not started.

        Raises:
            EnvironmentIncomplete: a secret cannot be read.
        """
        variables = environment(service, self._world, self._identity.grants)
        metadata = await self._identity.metadata_address(service.account)
        own = ((METADATA_HOST, metadata), (PLATFORM, self._entrances(service.covered)))
        number = next(self._numbers)
        around = self._surroundings
        config = InstanceConfig(
            role=service.role,
            service=service.name,
            instance=f"{service.revision}.{number}",
            account=service.account,
            hosts=around.hosts.merged(own),
            postgres_dsn=around.postgres_dsn,
            pubsub_port=around.pubsub_port,
            store=StoreAccess.declared(self._world, service.account),
            indexes=declared_indexes(self._world),
            faults=self._faults.take(service.name),
            code_paths=around.code_paths,
        )
        plan = InstancePlan(
            service=service,
            config=config,
            environment=variables,
            folder=self._folder / str(number),
            linger=self._linger,
        )
        return Instance(plan, self._launcher, self._clock, self._sink, on_change)


def declared_indexes(world: World) -> Indexes:
    """The composite indexes of the world, by collection with its prefix."""
    return tuple(
        (
            str(index.inputs["collection"]),
            tuple((str(row["fieldPath"]), str(row.get("order") or "ASCENDING")) for row in index.inputs["fields"]),
        )
        for index in world.of_type(INDEX)
    )
