"""The behaviour of every resource type: by hand where the sandbox acts on the type, generic for the rest of the SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import ProviderRefused
from sandbox.provider.products import (
    accounts,
    artifact_registry,
    cloud_run,
    firestore,
    grants,
    load_balancer,
    monitoring,
    network,
    private_services,
    pubsub,
    scheduler,
    secret_manager,
    sql,
    sql_instance,
    storage,
)
from sandbox.provider.schema import arguments_of
from sandbox.world import World

_PRODUCTS: Final[tuple[Mapping[str, Behaviour], ...]] = (
    accounts.BEHAVIOURS,
    artifact_registry.BEHAVIOURS,
    cloud_run.BEHAVIOURS,
    firestore.BEHAVIOURS,
    grants.BEHAVIOURS,
    load_balancer.BEHAVIOURS,
    monitoring.BEHAVIOURS,
    network.BEHAVIOURS,
    private_services.BEHAVIOURS,
    pubsub.BEHAVIOURS,
    scheduler.BEHAVIOURS,
    secret_manager.BEHAVIOURS,
    sql.BEHAVIOURS,
    sql_instance.BEHAVIOURS,
    storage.BEHAVIOURS,
)
BEHAVIOURS: Final[Mapping[str, Behaviour]] = {
    type_: behaviour for product in _PRODUCTS for type_, behaviour in product.items()
}
"""Types whose rules, defaults and outputs are written by hand."""
_AUTHORITATIVE: Final = re.compile(r"gcp:.*I[Aa][Mm](?:Binding|Policy)")


def behaviour_of(type_token: str) -> Behaviour:
    """What the platform does with a type.

    Raises:
        UnknownResourceTypeError: the SDK has no such type.
        ProviderRefused: the type grants authoritatively.
    """
    arguments_of(type_token)
    if _AUTHORITATIVE.fullmatch(type_token):
        raise ProviderRefused(
            f"{type_token} replaces every other member of its role, those of other stacks too; use the IAMMember form"
        )
    return BEHAVIOURS.get(type_token, _GENERIC)


def _generic_name(inputs: Inputs, around: Surroundings) -> str:
    return str(inputs.get("name") or around.logical)


def _generic_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    return {"id": f"projects/{inputs['project']}/{name}" if "project" in inputs else name}


_GENERIC: Final = Behaviour(
    name=_generic_name,
    computed=_generic_computed,
    immutable=frozenset({"name", "project", "location", "region", "zone"}),
)
"""For types that are recorded and that no sandbox service acts on."""
