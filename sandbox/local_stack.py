"""One stack, realised and running on this machine: the program's resources with the platform's services around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from runtime.adapters.clock import SystemClock
from runtime.adapters.postgres import PostgresDocuments
from runtime.adapters.postgres_schema import create_schema, open_pool
from runtime.contract.errors import HoldfastError
from runtime.contract.names import GOOGLE_KEYS_URL, service_host
from runtime.ports.clock import Clock
from sandbox.cloud_run.factory import PLATFORM, Surroundings, declared_indexes
from sandbox.cloud_run.front import CloudRun, Options
from sandbox.cloud_run.logs import LogSink
from sandbox.engine.deployment import Deployment, Engine
from sandbox.engine.registration import Mutate, unchanged
from sandbox.identity.server import IdentityService
from sandbox.local_keys import API_KEY_NAME, LocalKeys, local_keys
from sandbox.network import Hosts
from sandbox.pubsub.server import PubSub
from sandbox.scheduler.server import Scheduler
from sandbox.sql.postgres import Postgres
from sandbox.sql.ttl import TtlSweeper
from sandbox.stack_file import merged, read_stack_file

if TYPE_CHECKING:
    from sandbox.engine.pulumi_cli import PulumiEngine

T = TypeVar("T")
U = TypeVar("U")

STACK: Final = "local"
KEYS_HOST: Final = GOOGLE_KEYS_URL.split("/")[2]
POOL_CONNECTIONS: Final = 2


class LocalStackFailed(HoldfastError):
    """The stack could not be brought up; each line names what and why."""

    code = "local_stack_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """How a local stack differs from the one in the stack file.

    Attributes:
        state_dir: everything that it keeps; one running stack a folder.
        project_dir: folder of the stack file and of the user's own engines.
        port: the API's; 0 takes a free one.
        changes: stack values to change, by full key; a mapping is merged into the structure of its key.
        engine: what runs the program.
        mutate: for tests: changes or drops registrations of the program; the embedded engine only.
        with_policies: for tests: False brings up what the policy pack refuses.
        sink: gets every line that a service writes; None means the log.
        idle_after: seconds without a request after which an instance goes.
    """

    state_dir: Path
    project_dir: Path = field(default_factory=Path.cwd)
    port: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine = Engine.EMBEDDED
    mutate: Mutate = unchanged
    with_policies: bool = True
    sink: LogSink | None = None
    idle_after: float = 900


class LocalStack:
    """Use as an asynchronous context manager; leaving it ends every process and frees every port.

    Args:
        options: see LocalOptions.
        report: gets one short text per step, for people who wait.

    Raises (on entering):
        DeploymentFailed: the program or its values do not hold.
        LocalStackFailed: a service does not start.
        PulumiMissing: the real engine is chosen and its command is not there.
        PostgresFailed: no database, or the state folder is in use.
    """

    def __init__(self, options: LocalOptions, report: Callable[[str], None] | None = None) -> None:
        self._options = options
        self._report = report or (lambda _: None)
        self._clock: Clock = SystemClock()
        self._open = AsyncExitStack()
        self.hosts = Hosts()

    keys: LocalKeys
    deployment: Deployment
    postgres: Postgres
    identity: IdentityService
    cloud_run: CloudRun
    pubsub: PubSub
    scheduler: Scheduler

    @property
    def url(self) -> str:
        """The API, for people on this machine."""
        return f"http://127.0.0.1:{self.cloud_run.external.port}"

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def _start(self) -> None:
        self._report("database, and the program")
        state = self._options.state_dir
        self._project_dir = await asyncio.to_thread(self._options.project_dir.resolve)
        self.keys = await asyncio.to_thread(local_keys, state)
        self.postgres = Postgres(state)
        self._open.push_async_callback(self.postgres.stop)
        self.deployment, _ = await _both(asyncio.to_thread(self._realise), self.postgres.start())
        await self._start_platform(await self._open_documents())
        self._report("services")
        failures = await self.cloud_run.deploy()
        if failures:
            raise LocalStackFailed("; ".join(f"{name}: {why}" for name, why in sorted(failures.items())))
        self.pubsub.push()
        self._open.push_async_callback(self.pubsub.hold)
        await self.scheduler.start()
        self._open.push_async_callback(self.scheduler.stop)

    def _api_service(self) -> str:
        world = self.deployment.world
        host = urlsplit(str(self.deployment.outputs["api_address"])).hostname or ""
        return host.removesuffix(service_host("", world.number, world.region))

    def _realise(self) -> Deployment:
        from sandbox.engine.embedded import realise  # Pulumi is slow to import: beside the database's start, not before

        values = read_stack_file(self._project_dir / f"Pulumi.{STACK}.yaml")
        own = {"holdfast:api": {"key_hashes": {API_KEY_NAME: self.keys.api_key_hash}}}
        config = merged(merged(values, own), self._options.changes)
        secrets = {"holdfast:signing_key": self.keys.signing_key}
        if self._options.engine is Engine.PULUMI:
            return self._real_engine(config, secrets).up()
        return realise(
            config,
            secrets,
            stack=STACK,
            world_dir=self._options.state_dir,
            mutate=self._options.mutate,
            with_policies=self._options.with_policies,
        )

    def _real_engine(self, config: Mapping[str, str], secrets: Mapping[str, str]) -> PulumiEngine:
        if self._options.mutate is not unchanged:
            raise LocalStackFailed("registrations can be changed on the embedded engine only")
        from sandbox.engine.pulumi_cli import PulumiEngine, policy_packs  # the command line starts without them
        from sandbox.engine.pulumi_home import PulumiHome

        return PulumiEngine(
            home=PulumiHome((self._options.state_dir / "pulumi").resolve()),
            stack=STACK,
            config=config,
            secrets=secrets,
            policy_packs=policy_packs(self._project_dir) if self._options.with_policies else (),
        )

    async def _open_documents(self) -> PostgresDocuments:
        pool = await open_pool(self.postgres.dsn, size=POOL_CONNECTIONS)
        documents = PostgresDocuments(pool)
        self._open.push_async_callback(documents.close)
        await create_schema(pool, indexes=declared_indexes(self.deployment.world))
        return documents

    async def _start_platform(self, documents: PostgresDocuments) -> None:
        world, clock, options = self.deployment.world, self._clock, self._options
        self.identity = IdentityService(world, clock)
        self._open.push_async_callback(self.identity.stop)
        await self.identity.start()
        self.hosts.add(KEYS_HOST, self.identity.keys_address)
        self.pubsub = PubSub(world, self.identity, self.hosts, clock, options.state_dir / "pubsub")
        self._open.push_async_callback(self.pubsub.stop)
        await self.pubsub.start(push=False)
        self.cloud_run = CloudRun(
            world,
            self.identity,
            clock,
            surroundings=Surroundings(
                hosts=Hosts(dict(self.hosts.table)),
                postgres_dsn=self.postgres.dsn,
                pubsub_port=self.pubsub.address.port,
                code_paths=(str(self._project_dir),),
            ),
            options=Options(external_port=options.port, public=self._api_service(), idle_after=options.idle_after),
            sink=options.sink,
        )
        self._open.push_async_callback(self.cloud_run.stop)
        await self.cloud_run.start()
        self.hosts.add(PLATFORM, self.cloud_run.internal)
        self.scheduler = Scheduler(world, self.identity, self.hosts, clock)
        ttl = TtlSweeper(world, documents, clock)
        self._open.push_async_callback(ttl.stop)
        await ttl.start()


async def _both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Both results; the first failure as it is, once the other one has ended too."""
    try:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(first), group.create_task(second)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return one.result(), two.result()
