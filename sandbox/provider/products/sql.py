"""Databases and users of Cloud SQL instances of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings, account_missing
from sandbox.provider.faults import Failure
from sandbox.provider.limits import one_of
from sandbox.provider.products.sql_instance import SQL_INSTANCE
from sandbox.world import Resource, World

SQL_DATABASE: Final = "gcp:sql/database:Database"
SQL_USER: Final = "gcp:sql/user:User"

_IDENTIFIER_MAX: Final = 63
"""PostgreSQL: longest name of a database or role, bytes."""
_OWN_DATABASES: Final = frozenset({"postgres", "template0", "template1", "cloudsqladmin"})
_IAM_TYPES: Final = ("CLOUD_IAM_USER", "CLOUD_IAM_SERVICE_ACCOUNT", "CLOUD_IAM_GROUP")
_IAM_FLAG: Final = "cloudsql.iam_authentication"
_ACCOUNT_SUFFIX: Final = ".gserviceaccount.com"


def _within(inputs: Inputs, _: Surroundings) -> str:
    return f"{inputs['instance']}/{inputs['name']}"


def _instance_of(inputs: Inputs, world: World) -> Resource | None:
    return world.find(SQL_INSTANCE, inputs["instance"])


def _no_instance(inputs: Inputs) -> Failure:
    return Failure("instance", f"instance {inputs['instance']} does not exist")


def _database_rules(inputs: Inputs) -> Iterator[Failure]:
    name = str(inputs["name"])
    if name in _OWN_DATABASES:
        yield Failure("name", f"{name} is a database of the platform's own")
    if len(name.encode()) > _IDENTIFIER_MAX:
        yield Failure("name", f"is longer than {_IDENTIFIER_MAX} bytes")
    yield from one_of(inputs, "charset", ("UTF8",))


def _database_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    if _instance_of(inputs, world) is None:
        yield _no_instance(inputs)


def _user_rules(inputs: Inputs) -> Iterator[Failure]:
    name, kind = str(inputs["name"]), inputs["type"]
    yield from one_of(inputs, "type", ("BUILT_IN", *_IAM_TYPES))
    if len(name.encode()) > _IDENTIFIER_MAX:
        yield Failure("name", f"is longer than {_IDENTIFIER_MAX} bytes")
    if kind == "CLOUD_IAM_SERVICE_ACCOUNT" and name.endswith(_ACCOUNT_SUFFIX):
        yield Failure("name", f"{name} is refused; PostgreSQL's users are named without {_ACCOUNT_SUFFIX}")
    if kind in _IAM_TYPES and (inputs.get("password") or inputs.get("passwordWo")):
        yield Failure("password", "is refused; a user of this type has no password")


def _user_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    instance = _instance_of(inputs, world)
    if instance is None:
        yield _no_instance(inputs)
        return
    if inputs["type"] not in _IAM_TYPES:
        return
    flags = {(flag["name"], flag["value"]) for flag in instance.inputs["settings"].get("databaseFlags", [])}
    if (_IAM_FLAG, "on") not in flags:
        yield Failure("type", f"instance {instance.name} does not take identities; set its flag {_IAM_FLAG} to on")
    if inputs["type"] == "CLOUD_IAM_SERVICE_ACCOUNT":
        yield from account_missing(f"{inputs['name']}{_ACCOUNT_SUFFIX}", "name", world)


def _part_computed(kind: str, inputs: Inputs) -> dict[str, Any]:
    return {"id": f"projects/{inputs['project']}/instances/{inputs['instance']}/{kind}/{inputs['name']}"}


BEHAVIOURS: Final = {
    SQL_DATABASE: Behaviour(
        name=_within,
        auto_name="name",
        computed=lambda _, inputs, __: _part_computed("databases", inputs),
        defaults=lambda inputs: {"charset": "UTF8", "collation": "en_US.UTF8", "deletionPolicy": "DELETE", **inputs},
        rules=_database_rules,
        missing=_database_missing,
        immutable=frozenset({"name", "instance", "project", "charset", "collation"}),
    ),
    SQL_USER: Behaviour(
        name=_within,
        auto_name="name",
        computed=lambda _, inputs, __: _part_computed("users", inputs),
        defaults=lambda inputs: {"type": "BUILT_IN", **inputs},
        rules=_user_rules,
        missing=_user_missing,
        immutable=frozenset({"name", "instance", "project", "type"}),
    ),
}
