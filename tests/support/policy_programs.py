"""Programs for the policy pack: the dev stack, the kinds of resources that it does not have, and changes to both."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from policies.resource import Resource
from policies.rule import Rule
from policies.rules import RULES
from policies.verdict import judge
from sandbox.engine.judgement import policy_resource
from sandbox.engine.registration import Registration
from tests.support.real_engine import embedded

CONFIGURATION: Mapping[str, Any] = {
    "I06": {"public_services": ["*-api"]},
    "X01": {"public_services": ["*-api"]},
}
"""The API is the one public service."""
STACK = "dev"
PROJECT = "my-project-dev"
NUMBER = "123456789012"
ACCOUNTS = f"{PROJECT}.iam.gserviceaccount.com"
AGENT = f"serviceAccount:service-{NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
STORAGE_AGENT = f"serviceAccount:service-{NUMBER}@gs-project-accounts.iam.gserviceaccount.com"
LABELS = {"product": "holdfast", "stack": STACK, "part": "test"}

SERVICE = "gcp:cloudrunv2/service:Service"
SUBSCRIPTION = "gcp:pubsub/subscription:Subscription"
TOPIC = "gcp:pubsub/topic:Topic"

Change = tuple[str, str, Any]
"""Key of a resource, path of a property, value."""


def address(service: str) -> str:
    """Address of a service of the dev stack."""
    return f"https://{service}-{NUMBER}.europe-west1.run.app"


@dataclass
class Declared:
    """A resource that a test may change."""

    type: str
    name: str
    inputs: dict[str, Any]
    dependencies: tuple[str, ...] = ()
    property_dependencies: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stack: str = STACK

    @property
    def key(self) -> str:
        """`Type/logical-name`."""
        return f"{self.type.rpartition(':')[2]}/{self.name}"

    @property
    def urn(self) -> str:
        """As the engine forms it, without parents."""
        return f"urn:pulumi:{self.stack}::holdfast::{self.type}::{self.name}"

    def resource(self) -> Resource:
        """As the pack sees it."""
        return policy_resource(
            Registration(
                type=self.type,
                name=self.name,
                urn=self.urn,
                parent="",
                custom=True,
                inputs=self.inputs,
                dependencies=self.dependencies,
                property_dependencies=self.property_dependencies,
            )
        )


class Program:
    """Resources by key; every change makes another program."""

    def __init__(self, declared: Iterable[Declared]) -> None:
        self.declared = {each.key: each for each in declared}

    def with_(self, key: str, path: str, value: Any) -> Program:
        """With a property changed; a value of None removes it. `env.NAME` in the path means a variable."""
        return self.changed((key, path, value))

    def changed(self, *changes: Change) -> Program:
        """With properties changed, see `with_`."""
        declared = {**self.declared, **{key: copy.deepcopy(self.declared[key]) for key, _, _ in changes}}
        for key, path, value in changes:
            _set(declared[key].inputs, path.split("."), value)
        return Program(declared.values())

    def without(self, key: str) -> Program:
        """With a resource left out."""
        assert key in self.declared, sorted(self.declared)
        return Program(each for each in self.declared.values() if each.key != key)

    def plus(self, *more: Declared) -> Program:
        """With more resources."""
        return Program([*self.declared.values(), *more])

    def unlinked(self, key: str) -> Program:
        """With a resource that refers to no other and waits for none."""
        changed = copy.deepcopy(self.declared)
        changed[key].dependencies, changed[key].property_dependencies = (), {}
        return Program(changed.values())

    def in_stack(self, stack: str) -> Program:
        """The same in a stack of another name, without links between resources."""
        changed = copy.deepcopy(self.declared)
        for each in changed.values():
            each.stack, each.dependencies, each.property_dependencies = stack, (), {}
        return Program(changed.values())

    def resources(self) -> list[Resource]:
        """As the pack sees them."""
        return [each.resource() for each in self.declared.values()]

    def broken(self, configuration: Mapping[str, Any] = CONFIGURATION, rules: Sequence[Rule] = RULES) -> set[str]:
        """Ids of the rules that it breaks."""
        return {found.rule.id for found in judge(self.resources(), configuration, rules)}

    def lines(self, rule: str) -> list[str]:
        """`logical-name: detail` of everything that breaks a rule."""
        found = judge(self.resources(), CONFIGURATION)
        return [f"{each.urn.rpartition('::')[2]}: {each.detail}" for each in found if each.rule.id == rule]


def _set(inputs: dict[str, Any], path: list[str], value: Any) -> None:
    target: Any = inputs
    if path[0] == "env":
        _set_variable(inputs["template"]["containers"][0].setdefault("envs", []), path[1], value)
        return
    for key in path[:-1]:
        target = target[int(key)] if isinstance(target, list) else target.setdefault(key, {})
    last: Any = int(path[-1]) if isinstance(target, list) else path[-1]
    if value is None:
        target.pop(last, None)
    else:
        target[last] = value


def _set_variable(variables: list[dict[str, Any]], name: str, value: Any) -> None:
    variables[:] = [variable for variable in variables if variable["name"] != name]
    if value is not None:
        variables.append({"name": name, **(value if isinstance(value, dict) else {"value": value})})


def of_registrations(registrations: Iterable[Registration], stack: str = STACK) -> Program:
    """What a run of the real program registered."""
    custom = [each for each in registrations if each.custom]
    renamed = {each.urn: f"urn:pulumi:{stack}::holdfast::{each.type}::{each.name}" for each in custom}

    def urns(given: Iterable[str]) -> tuple[str, ...]:
        return tuple(renamed[urn] for urn in given if urn in renamed)

    return Program(
        Declared(
            each.type,
            each.name,
            copy.deepcopy(dict(each.inputs)),
            urns(each.dependencies),
            {name: urns(sources) for name, sources in each.property_dependencies.items()},
            stack,
        )
        for each in custom
    )


@cache
def rendered() -> Program:
    """What the project renders for the dev stack."""
    with tempfile.TemporaryDirectory() as folder:
        return of_registrations(embedded(Path(folder), STACK).registrations)


@cache
def long_requests() -> Program:
    """What the project renders where requests outlast the ack deadline."""
    worker = {"request_timeout_seconds": 3600, "run_timeout_seconds": 3540}
    with tempfile.TemporaryDirectory() as folder:
        return of_registrations(embedded(Path(folder), STACK, worker=worker).registrations)


def storage() -> list[Declared]:
    """A bucket that tells of its objects, a sink of dead letters, and a database, all of which pass."""
    return [
        Declared(
            "gcp:storage/bucket:Bucket",
            "content",
            {"name": "content", "location": "EUROPE-WEST1", "uniformBucketLevelAccess": True,
             "publicAccessPrevention": "enforced", "labels": LABELS},
        ),
        Declared(
            "gcp:storage/notification:Notification",
            "objects",
            {"bucket": "content", "topic": f"projects/{PROJECT}/topics/objects", "payloadFormat": "JSON_API_V1",
             "objectNamePrefix": "media/"},
        ),
        Declared(TOPIC, "objects", {"name": "objects", "project": PROJECT, "labels": LABELS}),
        grant("topicIAMMember:TopicIAMMember", "storage-publishes", "roles/pubsub.publisher", STORAGE_AGENT,
              topic=f"projects/{PROJECT}/topics/objects"),
        Declared(
            SUBSCRIPTION,
            "sink",
            {"name": "sink", "project": PROJECT, "topic": f"projects/{PROJECT}/topics/holdfast-execution-dead-letters",
             "expirationPolicy": {"ttl": ""}, "cloudStorageConfig": {"bucket": "content"}, "labels": LABELS},
        ),
        grant("bucketIAMMember:BucketIAMMember", "sink-creates", "roles/storage.objectCreator", AGENT,
              package="storage", bucket="content"),
        grant("bucketIAMMember:BucketIAMMember", "sink-reads", "roles/storage.legacyBucketReader", AGENT,
              package="storage", bucket="content"),
        Declared(
            "gcp:sql/databaseInstance:DatabaseInstance",
            "usage",
            {"databaseVersion": "POSTGRES_17", "deletionProtection": False, "settings": {
                "tier": "db-f1-micro",
                "databaseFlags": [{"name": "cloudsql.iam_authentication", "value": "on"}],
                "ipConfiguration": {"ipv4Enabled": False}}},
        ),
    ]  # fmt: skip


def grant(kind: str, name: str, role: str, member: str, /, *, package: str = "pubsub", **on: str) -> Declared:
    """A grant."""
    return Declared(f"gcp:{package}/{kind}", name, {"role": role, "member": member, **on})


PROTECTED = {
    "deletionProtection": True,
    "deleteProtectionState": "DELETE_PROTECTION_ENABLED",
    "forceDestroy": False,
    "deletionPolicy": "PREVENT",
}
"""Property -> its value in production."""


@cache
def protected() -> Program:
    """The dev stack, and storage, as a production stack: nothing of it goes by mistake."""
    given = [(key, name) for key, each in extended().declared.items() for name in PROTECTED if name in each.inputs]
    return extended().in_stack("prod-eu").changed(*((key, name, PROTECTED[name]) for key, name in given))


@cache
def extended() -> Program:
    """The dev stack, and storage."""
    return rendered().plus(*storage())
