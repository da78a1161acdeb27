"""The declared resources and grants: the one source that every sandbox service reads.

A world is keyed by resource type and physical name, never by URN, so that renaming a component keeps its data.
It says what is declared; what happens at run time (messages, instances, documents) belongs to the services.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

TOPIC: Final = "gcp:pubsub/topic:Topic"
SUBSCRIPTION: Final = "gcp:pubsub/subscription:Subscription"
SERVICE: Final = "gcp:cloudrunv2/service:Service"
ACCOUNT: Final = "gcp:serviceaccount/account:Account"
SCHEDULER_JOB: Final = "gcp:cloudscheduler/job:Job"
DATABASE: Final = "gcp:firestore/database:Database"
FIELD: Final = "gcp:firestore/field:Field"
INDEX: Final = "gcp:firestore/index:Index"
SECRET: Final = "gcp:secretmanager/secret:Secret"
SECRET_VERSION: Final = "gcp:secretmanager/secretVersion:SecretVersion"
BUCKET: Final = "gcp:storage/bucket:Bucket"
NETWORK: Final = "gcp:compute/network:Network"
SUBNET: Final = "gcp:compute/subnetwork:Subnetwork"
DNS_ZONE: Final = "gcp:dns/managedZone:ManagedZone"
DNS_RECORD: Final = "gcp:dns/recordSet:RecordSet"


class Kind(StrEnum):
    """What a grant can be on."""

    PROJECT = "project"
    SERVICE = "service"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"
    ACCOUNT = "service account"
    SECRET = "secret"
    BUCKET = "bucket"


MEMBER_TYPES: Final[Mapping[str, tuple[Kind, str]]] = {
    "gcp:projects/iAMMember:IAMMember": (Kind.PROJECT, "project"),
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": (Kind.SERVICE, "name"),
    "gcp:pubsub/topicIAMMember:TopicIAMMember": (Kind.TOPIC, "topic"),
    "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember": (Kind.SUBSCRIPTION, "subscription"),
    "gcp:serviceaccount/iAMMember:IAMMember": (Kind.ACCOUNT, "serviceAccountId"),
    "gcp:secretmanager/secretIamMember:SecretIamMember": (Kind.SECRET, "secretId"),
    "gcp:storage/bucketIAMMember:BucketIAMMember": (Kind.BUCKET, "bucket"),
}
"""Type of an additive grant -> kind of its target, and the input that names the target."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One declared resource.

    Attributes:
        type: Pulumi type token.
        name: physical name, the last part of what Google calls it; unique within a type.
        urn: where the program declared it.
        inputs: checked inputs, camelCase, defaults filled in, no secret wrappers.
        outputs: inputs and computed outputs.
        secrets: top-level inputs that hold a secret; never logged, never shown.
        fingerprint: salted digest of the secret inputs, by which a later run sees whether they changed; "" without any.
        dependencies: URNs of the resources that must outlive this one.
        protect: True refuses to delete it.
    """

    type: str
    name: str
    urn: str
    inputs: Mapping[str, Any] = field(repr=False)
    outputs: Mapping[str, Any] = field(repr=False)
    secrets: frozenset[str] = frozenset()
    fingerprint: str = field(default="", repr=False)
    dependencies: tuple[str, ...] = ()
    protect: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """What a grant is on."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class MissingGrant:
    """A grant that a step needed and the program does not declare."""

    member: str
    role: str
    target: Target

    def __str__(self) -> str:
        return f"missing grant: {self.role} on {self.target} for {self.member}"


@dataclass(slots=True)
class World:
    """All declared resources of one stack.

    Attributes:
        project: project id.
        number: project number, as digits.
        region: the one region.
        state_dir: folder for everything that must survive a restart; private to its owner.
        retired: (type, name) of deleted resources whose names the platform keeps.
        revision: grows with every change, so that a service can keep what it has read until then.
    """

    project: str
    number: str
    region: str
    state_dir: Path
    revision: int = field(default=0, repr=False)
    retired: set[tuple[str, str]] = field(default_factory=set, repr=False)
    _resources: dict[tuple[str, str], Resource] = field(default_factory=dict, repr=False)

    def put(self, resource: Resource) -> None:
        """Adds or replaces a resource."""
        self._resources[resource.type, resource.name] = resource
        self.revision += 1

    def remove(self, type_: str, name: str) -> None:
        """Removes a resource; nothing happens where there is none."""
        self._resources.pop((type_, name), None)
        self.revision += 1

    def retire(self, type_: str, name: str) -> None:
        """Keeps the name of a deleted resource from being used again."""
        self.retired.add((type_, name))

    def is_retired(self, type_: str, name: str) -> bool:
        """Whether a name cannot be used again."""
        return (type_, name) in self.retired

    def find(self, type_: str, name: str) -> Resource | None:
        """The resource of a type with a physical name; a full Google name is cut to its last part."""
        return self._resources.get((type_, name)) or self._resources.get((type_, short_name(name)))

    def of_type(self, type_: str) -> list[Resource]:
        """All resources of a type, by name."""
        return sorted((r for r in self if r.type == type_), key=lambda r: r.name)

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._resources.values()))

    def __len__(self) -> int:
        return len(self._resources)

    def agent(self, product: str) -> str:
        """Member string of a Google service agent, for example `gcp-sa-pubsub`."""
        return f"serviceAccount:service-{self.number}@{product}.iam.gserviceaccount.com"

    def missing_grant(self, member: str, roles: Iterable[str], target: Target) -> MissingGrant | None:
        """None where `member` holds one of `roles` on `target` or on the project; else the first role, named.

        Args:
            member: `serviceAccount:EMAIL`.
            roles: any one of them suffices; the first is the one to suggest.
            target: compared by last name part.
        """
        wanted = tuple(roles)
        for resource in self:
            kind_and_field = MEMBER_TYPES.get(resource.type)
            if kind_and_field is None or resource.inputs.get("role") not in wanted:
                continue
            if member != resource.inputs.get("member"):
                continue
            kind, name_field = kind_and_field
            on = short_name(str(resource.inputs.get(name_field, "")))
            if kind is Kind.PROJECT or (kind is target.kind and on == short_name(target.name)):
                return None
        return MissingGrant(member, wanted[0], target)

    def secret_version(self, secret: str, version: str) -> Resource | None:
        """A version of a secret; None where there is none.

        Args:
            secret: short or full name.
            version: its number, or `latest`.
        """
        prefix = f"{short_name(secret)}/versions/"
        numbers = [int(short_name(r.name)) for r in self.of_type(SECRET_VERSION) if r.name.startswith(prefix)]
        wanted = max(numbers, default=0) if version == "latest" else version
        return self.find(SECRET_VERSION, f"{prefix}{wanted}")

    def secret_value(self, secret: str, version: str) -> str | None:
        """Value of a version of a secret; None where there is none, or where the world was loaded from its file."""
        resource = self.secret_version(secret, version)
        return None if resource is None else resource.inputs.get("secretData")

    def save(self) -> None:
        """Writes the world to `state_dir/world.json`, readable by its owner only; secret values are left out."""
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        rows = [
            {
                "type": r.type,
                "name": r.name,
                "urn": r.urn,
                "inputs": _without(r.inputs, r.secrets),
                "outputs": _without(r.outputs, r.secrets),
                "secrets": sorted(r.secrets),
                "fingerprint": r.fingerprint,
                "dependencies": list(r.dependencies),
                "protect": r.protect,
            }
            for r in self
        ]
        body = {
            "project": self.project,
            "number": self.number,
            "region": self.region,
            "resources": rows,
            "retired": sorted(self.retired),
        }
        partial = self.state_dir / "world.json.partial"
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            json.dump(body, stream, indent=1)
        partial.replace(self.state_dir / "world.json")

    @classmethod
    def load(cls, state_dir: Path) -> World | None:
        """The world saved in a folder, or None where there is none."""
        path = state_dir / "world.json"
        if not path.exists():
            return None
        body = json.loads(path.read_text())
        world = cls(body["project"], body["number"], body["region"], state_dir)
        world.retired = {(type_, name) for type_, name in body.get("retired", [])}
        for row in body["resources"]:
            sets = {"secrets": frozenset(row["secrets"]), "dependencies": tuple(row["dependencies"])}
            world.put(Resource(**{**row, **sets}))
        return world


def _without(values: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in secrets}


def short_name(name: str) -> str:
    """Last part of a full resource name: `projects/p/topics/t` -> `t`."""
    return name.rsplit("/", 1)[-1]
