"""A revision of a service that the front serves."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.ports.clock import Clock
from sandbox.cloud_run.declared import DeclaredService
from sandbox.cloud_run.factory import InstanceFactory
from sandbox.cloud_run.fleet import Limits
from sandbox.cloud_run.instance import Instance
from sandbox.cloud_run.pool import Pool


@dataclass(frozen=True, slots=True)
class InstanceState:
    """An instance as it is now.

    Attributes:
        id: its name in the logs.
        pid: of its process; None before it is started.
        serving: whether it takes requests.
        in_flight: requests that it has.
        cpu_stopped: whether its CPU is taken away.
    """

    id: str
    pid: int | None
    serving: bool
    in_flight: int
    cpu_stopped: bool


class Service:
    """One revision, its instances and the requests that wait for them.

    Args:
        declared: what the program says.
        factory: makes its instances.
        clock: for every wait.
        idle_after: seconds without a request after which an instance above the minimum goes.
    """

    def __init__(self, declared: DeclaredService, factory: InstanceFactory, clock: Clock, idle_after: float) -> None:
        self.declared = declared
        limits = Limits(
            minimum=declared.min_instances,
            maximum=max(declared.max_instances, declared.min_instances),
            concurrency=declared.concurrency,
            idle_after=idle_after,
        )
        self.pool: Pool[Instance] = Pool(
            declared.revision, limits, lambda: factory.make(declared, self._instance_changed), clock
        )

    @property
    def failure(self) -> str | None:
        """Why its last start failed, one line for each fault; None where it did not."""
        return self.pool.fleet.failure

    @property
    def instances(self) -> list[InstanceState]:
        """All that run, the starting ones included."""
        return [
            InstanceState(one.id, one.pid, one.serving, one.in_flight, one.cpu.stopped)
            for one in self.pool.fleet.members
        ]

    def _instance_changed(self, instance: Instance) -> None:
        if instance.ended:
            self.pool.fleet.gone(instance)
        else:
            self.pool.refresh()
