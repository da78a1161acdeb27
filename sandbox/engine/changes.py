"""Brings registrations into a new world, with the world of the last run at hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.ignored import with_ignored
from sandbox.engine.registration import Registration
from sandbox.engine.violation import named
from sandbox.provider import provider
from sandbox.provider.behaviour import Surroundings
from sandbox.provider.faults import ProviderRefused
from sandbox.world import Resource, World


@dataclass(slots=True)
class Changes:
    """The state of one run.

    Attributes:
        before: the world of the last successful run; never written to.
        now: the world that this run fills.
    """

    before: World
    now: World
    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now.retired |= self.before.retired

    def apply(self, registration: Registration) -> Resource:
        """Checks a registration and creates, updates, replaces or keeps its resource.

        Raises:
            HoldfastError: the provider refuses it; the message has every fault of it.
        """
        declared = self._declared(registration)
        old = self.before.find(declared.type, declared.name)
        if old is None:
            self.created.append(declared.urn)
            return provider.create(self.now, declared)
        difference = provider.diff(old, declared)
        if not difference.changes:
            self.unchanged.append(declared.urn)
            return provider.keep(self.now, old, declared)
        if not difference.replaces:
            self.updated.append(declared.urn)
            return provider.update(self.now, old, declared)
        if refusal := self._refusal(old):
            changed = ", ".join(difference.replaces)
            raise ProviderRefused(f"a change of {changed} replaces it, and {refusal}")
        provider.retire(self.now, old)
        self.replaced.append(declared.urn)
        return provider.create(self.now, declared)

    def pretend(self, registration: Registration) -> dict[str, object]:
        """Outputs of a dropped registration, as if it had been created; the world stays without it."""
        declared = self._declared(registration)
        aside = World(self.now.project, self.now.number, self.now.region, self.now.state_dir)
        for resource in self.now:
            aside.put(resource)
        return dict(provider.create(aside, declared).outputs)

    def leftovers(self) -> list[Resource]:
        """What the last world has and this one lacks, dependents first; names that the platform keeps stay taken.

        Raises:
            DeploymentFailed: some of them may not be deleted; a line for each.
        """
        gone = [old for old in self.before if self.now.find(old.type, old.name) is None]
        for old in gone:
            if provider.stays(old):
                self.now.put(old)
        refused = [
            f"{named(old.urn)} is no longer declared, but {refusal}" for old in gone if (refusal := self._refusal(old))
        ]
        if refused:
            raise DeploymentFailed(refused)
        for old in gone:
            provider.retire(self.now, old)
        return _dependents_first(gone)

    def _declared(self, registration: Registration) -> provider.Declared:
        config = {"project": self.now.project, "region": self.now.region}
        inputs, failures = provider.check(
            registration.type, registration.inputs, logical=registration.name, config=config
        )
        if failures:
            raise ProviderRefused("; ".join(str(failure) for failure in failures))
        name = provider.identify(
            registration.type, inputs, Surroundings(registration.name, before=self.before, now=self.now)
        )
        old = self.before.find(registration.type, name)
        if old is not None:
            # A secret's old value is not kept, so its path cannot be ignored.
            paths = [path for path in registration.ignore_changes if path not in registration.secrets]
            inputs = with_ignored(inputs, old.inputs, paths)
        return provider.Declared(
            type=registration.type,
            name=name,
            urn=registration.urn,
            inputs=inputs,
            secrets=registration.secrets,
            dependencies=registration.dependencies,
            protect=registration.protect,
        )

    def _refusal(self, resource: Resource) -> str | None:
        if resource.protect:
            return "it is protected; deploy it with protect off first"
        return provider.delete_refusal(self.now, resource)


def _dependents_first(resources: Iterable[Resource]) -> list[Resource]:
    by_urn = {resource.urn: resource for resource in resources}
    graph = {urn: [other for other in resource.dependencies if other in by_urn] for urn, resource in by_urn.items()}
    return [by_urn[urn] for urn in reversed(list(TopologicalSorter(graph).static_order()))]
