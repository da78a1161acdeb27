"""Physical names, and what follows from them: full names, addresses, e-mails. All of it is known before a preview."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runtime.contract import names
from runtime.contract.settings.words import Workload

PREFIX_MAX: Final = 13
"""Longest name prefix: with the longest suffix an account id is then 30 characters, Google's limit."""
SERVICE_MAX: Final = 49
"""Cloud Run: longest name of a service."""
ACCOUNT_MIN: Final = 6
ACCOUNT_MAX: Final = 30
"""IAM: shortest and longest id of a service account."""
RESOURCE_MAX: Final = 255
"""Pub/Sub and Secret Manager: longest name."""
DATABASE_MAX: Final = 63
"""Firestore: longest id of a database."""
NETWORK_MAX: Final = 63
"""Compute Engine and Cloud DNS: longest name."""
BUCKET_MAX: Final = 63
"""Cloud Storage: longest name of a bucket without dots."""
INSTANCE_MAX: Final = 85
"""Cloud SQL: longest name of an instance, however long its project's id is."""
REPOSITORY_MAX: Final = 63
"""Artifact Registry: longest id of a repository."""
LABEL_MAX: Final = 63
"""Longest value of a label."""

_SHORT: Final[Mapping[Workload, str]] = {
    Workload.EXECUTION: "execution",
    Workload.COMPILATION: "compilation",
    Workload.FILE_TRACKING: "files",
    Workload.MEDIA_TRANSFORMATION: "media",
}
"""Workload -> its part of a name; names follow keys, never places in a list, so that removing one renames no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of one stack's resources.

    Attributes:
        prefix: put in front of every name; two stacks of one project have different ones.
        project: project id.
        number: project number.
        region: the one region.
    """

    prefix: str
    project: str
    number: str
    region: str

    @property
    def database(self) -> str:
        """Firestore database."""
        return _within(f"{self.prefix}-state", DATABASE_MAX)

    @property
    def signing_key(self) -> str:
        """Secret with the key that signs jobs."""
        return _within(f"{self.prefix}-signing-key", RESOURCE_MAX)

    @property
    def repository(self) -> str:
        """Repository of images."""
        return _within(self.prefix, REPOSITORY_MAX)

    @property
    def repository_address(self) -> str:
        """In front of an image's name."""
        return f"{self.region}-docker.pkg.dev/{self.project}/{self.repository}"

    @property
    def image(self) -> str:
        """Image of every service, without tag and digest."""
        return f"{self.repository_address}/runtime"

    @property
    def tick(self) -> str:
        """Scheduler job of the sweeper, and its account."""
        return _account(f"{self.prefix}-tick")

    @property
    def api(self) -> str:
        """API service, and its account."""
        return _account(f"{self.prefix}-api")

    @property
    def executor(self) -> str:
        """Executor service, and its account."""
        return _account(f"{self.prefix}-executor")

    @property
    def public_endpoint(self) -> str:
        """Parts of the load balancer in front of the API; some get up to nine characters more."""
        return _within(f"{self.prefix}-public", NETWORK_MAX - 9)

    @property
    def network(self) -> str:
        """VPC, and its subnet in the region."""
        return _within(f"{self.prefix}-network", NETWORK_MAX)

    @property
    def platform_zone(self) -> str:
        """Private zone for the addresses of services."""
        return _within(f"{self.prefix}-run-app", NETWORK_MAX)

    @property
    def dead_letter_bucket(self) -> str:
        """Bucket of dead letters; buckets have one name space in all of Google's cloud, hence the project."""
        return _within(f"{self.project}-{self.prefix}-dead-letters", BUCKET_MAX)

    @property
    def content_bucket(self) -> str:
        """Bucket of users' files."""
        return _within(f"{self.project}-{self.prefix}-content", BUCKET_MAX)

    @property
    def objects(self) -> str:
        """Topic of the events of users' files, and the subscription that keeps them."""
        return _within(f"{self.prefix}-objects", RESOURCE_MAX)

    @property
    def private_services(self) -> str:
        """Addresses for Google's managed services in the network."""
        return _within(f"{self.prefix}-services", NETWORK_MAX)

    def usage_database(self, generation: int) -> str:
        """Cloud SQL instance."""
        return _within(f"{self.prefix}-usage-{generation}", INSTANCE_MAX)

    @property
    def dead_letter_identity(self) -> str:
        """Account with which dead letters are pushed to the API."""
        return _account(f"{self.prefix}-dead-letters")

    def worker(self, workload: Workload) -> str:
        """Service of a worker, and its account."""
        return _account(f"{self.prefix}-{_SHORT[workload]}")

    def push(self, workload: Workload) -> str:
        """Subscription that pushes to a worker, and the identity with which it does."""
        return _account(f"{self.prefix}-{_SHORT[workload]}-push")

    def jobs(self, workload: Workload) -> str:
        """Topic of a workload's messages."""
        return _within(f"{self.prefix}-{_SHORT[workload]}-jobs", RESOURCE_MAX)

    def dead_letters(self, workload: Workload) -> str:
        """Topic of a workload's dead letters, and the subscription that keeps them."""
        return _within(f"{self.prefix}-{_SHORT[workload]}-dead-letters", RESOURCE_MAX)

    def dead_letters_push(self, workload: Workload) -> str:
        """Subscription that pushes a workload's dead letters to the API."""
        return _within(f"{self.dead_letters(workload)}-push", RESOURCE_MAX)

    def dead_letters_sink(self, workload: Workload) -> str:
        """Subscription that writes a workload's dead letters to the bucket."""
        return _within(f"{self.dead_letters(workload)}-sink", RESOURCE_MAX)

    def address(self, service: str) -> str:
        """Deterministic address of a service: push endpoint, audience and base URL at once."""
        return names.service_url(service, self.number, self.region)

    def email(self, account: str) -> str:
        """E-mail of a service account."""
        return f"{account}@{self.project}.iam.gserviceaccount.com"

    def topic(self, topic: str) -> str:
        """Full name of a topic."""
        return f"projects/{self.project}/topics/{topic}"

    def subscription(self, subscription: str) -> str:
        """Full name of a subscription."""
        return f"projects/{self.project}/subscriptions/{subscription}"

    @property
    def pubsub_agent(self) -> str:
        """Member string of Pub/Sub's own service agent, which forwards dead letters and signs push tokens."""
        return f"serviceAccount:service-{self.number}@gcp-sa-pubsub.iam.gserviceaccount.com"


def labels(stack: str, part: str) -> dict[str, str]:
    """Labels of a resource.

    Args:
        stack: name of the stack, in any spelling.
        part: which part of the system the resource belongs to.
    """
    spelled = re.sub(r"[^a-z0-9_-]", "-", stack.lower())[:LABEL_MAX]
    return {"product": names.PRODUCT, "stack": spelled, "part": part}


def _account(name: str) -> str:
    if not ACCOUNT_MIN <= len(name) <= ACCOUNT_MAX:
        raise ValueError(f"{name!r} is an account's id, and must have {ACCOUNT_MIN} to {ACCOUNT_MAX} characters")
    return _within(name, SERVICE_MAX)


def _within(name: str, longest: int) -> str:
    if len(name) > longest:
        raise ValueError(f"{name!r} has {len(name)} characters, but may have {longest}")
    return name
