"""One resource of a program, as the engine hands it over."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .properties import Properties

SERVICE: Final = "gcp:cloudrunv2/service:Service"
SERVICE_V1: Final = "gcp:cloudrun/service:Service"
RUN_JOB: Final = "gcp:cloudrunv2/job:Job"
WORKER_POOL: Final = "gcp:cloudrunv2/workerPool:WorkerPool"
SUBSCRIPTION: Final = "gcp:pubsub/subscription:Subscription"
TOPIC: Final = "gcp:pubsub/topic:Topic"
ACCOUNT: Final = "gcp:serviceaccount/account:Account"
ACCOUNT_KEY: Final = "gcp:serviceaccount/key:Key"
SERVICE_IDENTITY: Final = "gcp:projects/serviceIdentity:ServiceIdentity"
SCHEDULER_JOB: Final = "gcp:cloudscheduler/job:Job"
ENDPOINT_GROUP: Final = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"
DNS_ZONE: Final = "gcp:dns/managedZone:ManagedZone"
DNS_RECORD: Final = "gcp:dns/recordSet:RecordSet"
SUBNETWORK: Final = "gcp:compute/subnetwork:Subnetwork"
REPOSITORY: Final = "gcp:artifactregistry/repository:Repository"
SECRET: Final = "gcp:secretmanager/secret:Secret"
DATABASE: Final = "gcp:firestore/database:Database"
FIELD: Final = "gcp:firestore/field:Field"
SQL_INSTANCE: Final = "gcp:sql/databaseInstance:DatabaseInstance"
BUCKET: Final = "gcp:storage/bucket:Bucket"
IMAGE_BUILD: Final = "docker-build:index:Image"
NOTIFICATION: Final = "gcp:storage/notification:Notification"

_GRANT: Final = re.compile(r"gcp:\w+/\w*[iI][aA][mM]Member:\w*I(?:AM|am)Member", re.ASCII)
_AUTHORITATIVE: Final = re.compile(
    r"gcp:\w+/\w*[iI][aA][mM](?:Binding|Policy):\w*I(?:AM|am)(?:Binding|Policy)", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of the platform; components are none.

    Attributes:
        type: type token.
        name: logical name.
        urn: where a violation points to.
        properties: what the program says of it; of a deployed one also what the platform says.
        dependencies: URNs of the resources that it refers to or that its options name.
        property_dependencies: property -> URNs of the resources that its value came from.
    """

    type: str
    name: str
    urn: str
    properties: Properties = field(repr=False)
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def stack(self) -> str:
        """Name of the stack, out of the URN."""
        return self.urn.split("::", maxsplit=1)[0].removeprefix("urn:pulumi:")

    @property
    def is_grant(self) -> bool:
        """Whether it gives one member one role."""
        return _GRANT.fullmatch(self.type) is not None

    @property
    def is_authoritative(self) -> bool:
        """Whether it sets all members of a role, or all roles."""
        return _AUTHORITATIVE.fullmatch(self.type) is not None

    def came_from(self, *names: str) -> tuple[str, ...]:
        """URNs of the resources that these properties came from."""
        return tuple(urn for name in names for urn in self.property_dependencies.get(name, ()))

    @property
    def transforms(self) -> bool:
        """Whether a topic, or a subscription, changes or drops messages on their way."""
        steps = self.properties.sections("messageTransforms")
        return any(not step.flag("disabled") for step in steps)

    @property
    def full_name(self) -> str:
        """`projects/P/COLLECTION/NAME` where project and name are known, else the URN: a key that is the same wherever
        the resource is referred to.
        """
        name = self.properties.known_text("name")
        project = self.properties.known_text("project")
        collection = {TOPIC: "topics", SUBSCRIPTION: "subscriptions"}.get(self.type)
        return f"projects/{project}/{collection}/{name}" if name and project and collection else self.urn

    def may_be(self, text: str) -> bool:
        """Whether a full name can mean this resource, whose own project is not said."""
        name = self.properties.known_text("name")
        return name is not None and not self.properties.has("project") and text.rpartition("/")[2] == name


@dataclass(frozen=True)
class Facet:
    """What the rules ask about one resource; what is absent is the platform's default.

    Attributes:
        resource: the resource.
    """

    resource: Resource

    @property
    def urn(self) -> str:
        """URN of the resource."""
        return self.resource.urn

    @property
    def properties(self) -> Properties:
        """All of its properties."""
        return self.resource.properties
