"""The environment of an instance: what the service declares, and the three variables that the platform adds."""

from __future__ import annotations

from typing import Final

from runtime.contract.errors import HoldfastError
from sandbox.cloud_run.declared import DeclaredService
from sandbox.identity.grants import Grants
from sandbox.world import Kind, Target, World

ACCESSOR: Final = ("roles/secretmanager.secretAccessor", "roles/secretmanager.admin")


class EnvironmentIncomplete(HoldfastError):
    """A declared variable has no value that the service may read; its instances do not start."""

    code = "environment_incomplete"


def environment(service: DeclaredService, world: World, grants: Grants) -> dict[str, str]:
    """Exactly what the process of an instance gets; nothing of this machine is in it.

    Raises:
        EnvironmentIncomplete: a secret does not exist, or the service's account may not read it; the missing grant
            is named.
    """
    values: dict[str, str] = {}
    for variable in service.variables:
        if variable.secret is None:
            values[variable.name] = variable.value
        else:
            values[variable.name] = _secret(service, variable.name, variable.secret, variable.version, world, grants)
    return {**values, "PORT": str(service.port), "K_SERVICE": service.name, "K_REVISION": service.revision}


def _secret(service: DeclaredService, variable: str, secret: str, version: str, world: World, grants: Grants) -> str:
    member, target = f"serviceAccount:{service.account}", Target(Kind.SECRET, secret)
    missing = grants.missing(member, ACCESSOR, target)
    if missing is not None:
        grants.allow(member, ACCESSOR, target, step=f"start of {service.name}")
        raise EnvironmentIncomplete(f"variable {variable} of service {service.name}: {missing}")
    value = world.secret_value(secret, version)
    if value is None:
        raise EnvironmentIncomplete(f"variable {variable} of service {service.name}: no version {version} of {target}")
    return value
