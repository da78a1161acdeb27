"""What an instance is told of its surroundings, over a socket that it inherits and never through its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from runtime.adapters.query_rules import Indexes
from sandbox.cloud_run.faults import Fault
from sandbox.network import Hosts
from sandbox.sql.documents import StoreAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceConfig:
    """One instance and where its neighbours are on this machine.

    Attributes:
        role: what it runs.
        service: the service that it belongs to.
        instance: unique name, for logs.
        account: email of its service account.
        hosts: every host that it may call.
        postgres_dsn: the database behind the document store; never logged.
        pubsub_port: gRPC port of Pub/Sub on loopback.
        store: its rights on the document store, and the declared databases.
        indexes: declared composite indexes, by collection with its prefix.
        faults: what is ordered to go wrong in this instance.
        code_paths: folders of the user's own engines, put before every other import path.
    """

    role: str
    service: str
    instance: str
    account: str
    hosts: Hosts = field(default_factory=Hosts)
    postgres_dsn: str = field(default="", repr=False)
    pubsub_port: int = 0
    store: StoreAccess = field(default_factory=lambda: StoreAccess(()))
    indexes: Indexes = ()
    faults: tuple[Fault, ...] = ()
    code_paths: tuple[str, ...] = ()

    def logical_indexes(self, prefix: str) -> Indexes:
        """The declared indexes of the collections with a prefix, by their names without it."""
        return tuple((name.removeprefix(prefix), fields) for name, fields in self.indexes if name.startswith(prefix))

    def to_json(self) -> dict[str, Any]:
        """For handing to the process."""
        return {
            "role": self.role,
            "service": self.service,
            "instance": self.instance,
            "account": self.account,
            "hosts": self.hosts.to_json(),
            "postgres_dsn": self.postgres_dsn,
            "pubsub_port": self.pubsub_port,
            "store": {"databases": list(self.store.databases), "missing_grant": self.store.missing_grant},
            "indexes": [[name, [list(pair) for pair in fields]] for name, fields in self.indexes],
            "faults": [fault.to_json() for fault in self.faults],
            "code_paths": list(self.code_paths),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        store = body["store"]
        return cls(
            **{
                **body,
                "hosts": Hosts.from_json(body["hosts"]),
                "store": StoreAccess(tuple(store["databases"]), store["missing_grant"]),
                "indexes": tuple(
                    (name, tuple((path, direction) for path, direction in fields)) for name, fields in body["indexes"]
                ),
                "faults": tuple(Fault.from_json(row) for row in body["faults"]),
                "code_paths": tuple(body["code_paths"]),
            }
        )
