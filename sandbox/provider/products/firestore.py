"""Firestore databases, TTL fields and composite indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import matches, one_of
from sandbox.world import DATABASE, FIELD, INDEX, Resource, World

_NAME: Final = re.compile(r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]", re.ASCII)
_NAME_RULE: Final = "(default), or 4 to 63 lower case letters, digits and hyphens, starting with a letter"
_PROTECTED: Final = "DELETE_PROTECTION_ENABLED"
_DEFAULT: Final = "(default)"


def _database_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _database_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)
    yield from one_of(inputs, "type", ("FIRESTORE_NATIVE", "DATASTORE_MODE"))
    yield from one_of(inputs, "deleteProtectionState", (_PROTECTED, "DELETE_PROTECTION_DISABLED"))
    yield from one_of(inputs, "deletionPolicy", ("ABANDON", "DELETE", "PREVENT"))


def _database_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    return {"id": f"projects/{inputs['project']}/databases/{name}", "uid": f"uid-{name}"}


def _database_guard(resource: Resource) -> str | None:
    if resource.inputs["deleteProtectionState"] == _PROTECTED:
        return f"deleteProtectionState is {_PROTECTED}; deploy it as DELETE_PROTECTION_DISABLED first"
    return None


def _field_name(inputs: Inputs, _: Surroundings) -> str:
    return f"{inputs['database']}/{inputs['collection']}/{inputs['field']}"


def _index_name(inputs: Inputs, _: Surroundings) -> str:
    fields = "+".join(
        f"{field['fieldPath']}:{field.get('order') or field.get('arrayConfig')}" for field in inputs["fields"]
    )
    return f"{inputs['database']}/{inputs['collection']}/{fields}"


def _index_rules(inputs: Inputs) -> Iterator[Failure]:
    if len(inputs["fields"]) < 2:
        yield Failure("fields", "has one field; Firestore indexes single fields by itself and refuses such an index")
    for index, field in enumerate(inputs["fields"]):
        yield from (
            Failure(f"fields[{index}].{failure.path}", failure.reason)
            for failure in one_of(field, "order", ("ASCENDING", "DESCENDING"))
        )


def _within_database(inputs: Inputs, world: World) -> Iterator[Failure]:
    if world.find(DATABASE, inputs["database"]) is None:
        yield Failure("database", f"database {inputs['database']} does not exist")


def _field_computed(_: str, inputs: Inputs, __: World) -> dict[str, Any]:
    full = f"{_group(inputs)}/fields/{inputs['field']}"
    return {"id": full, "name": full}


def _index_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"{_group(inputs)}/indexes/{name.rsplit('/', 1)[-1]}"
    return {"id": full, "name": full}


def _group(inputs: Inputs) -> str:
    return f"projects/{inputs['project']}/databases/{inputs['database']}/collectionGroups/{inputs['collection']}"


BEHAVIOURS: Final = {
    DATABASE: Behaviour(
        name=_database_name,
        auto_name="name",
        computed=_database_computed,
        defaults=lambda inputs: {
            "deleteProtectionState": "DELETE_PROTECTION_DISABLED",
            "deletionPolicy": "ABANDON",
            "pointInTimeRecoveryEnablement": "POINT_IN_TIME_RECOVERY_DISABLED",
            **inputs,
        },
        rules=_database_rules,
        immutable=frozenset({"name", "locationId", "project", "databaseEdition"}),
        guard=_database_guard,
    ),
    FIELD: Behaviour(
        name=_field_name,
        computed=_field_computed,
        defaults=lambda inputs: {"database": _DEFAULT, **inputs},
        missing=_within_database,
        immutable=frozenset({"database", "collection", "field", "project"}),
    ),
    INDEX: Behaviour(
        name=_index_name,
        computed=_index_computed,
        defaults=lambda inputs: {"database": _DEFAULT, "queryScope": "COLLECTION", "apiScope": "ANY_API", **inputs},
        rules=_index_rules,
        missing=_within_database,
        immutable=frozenset({"database", "collection", "fields", "queryScope", "apiScope", "project"}),
    ),
}
