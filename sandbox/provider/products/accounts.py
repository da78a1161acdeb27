"""Service accounts and the service agents of Google's own products."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import matches
from sandbox.world import ACCOUNT, World

SERVICE_IDENTITY: Final = "gcp:projects/serviceIdentity:ServiceIdentity"

_ID: Final = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]", re.ASCII)
_ID_RULE: Final = "6 to 30 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_SERVICE: Final = re.compile(r"(?P<product>[a-z][a-z0-9-]*)\.googleapis\.com", re.ASCII)


def _account_name(inputs: Inputs, _: Surroundings) -> str:
    return f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"


def _account_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "accountId", _ID, _ID_RULE)
    if len(inputs.get("displayName") or "") > 100:
        yield Failure("displayName", "is longer than 100 characters")


def _account_computed(name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    full = f"projects/{inputs['project']}/serviceAccounts/{name}"
    return {"id": full, "name": full, "email": name, "member": f"serviceAccount:{name}", "uniqueId": f"uid-{name}"}


def _identity_name(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["service"])


def _identity_computed(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
    member = world.agent(f"gcp-sa-{name.removesuffix('.googleapis.com')}")
    return {
        "id": f"projects/{inputs['project']}/services/{name}",
        "email": member.removeprefix("serviceAccount:"),
        "member": member,
    }


BEHAVIOURS: Final = {
    ACCOUNT: Behaviour(
        name=_account_name,
        auto_name="accountId",
        computed=_account_computed,
        defaults=lambda inputs: {"disabled": False, **inputs},
        rules=_account_rules,
        immutable=frozenset({"accountId", "project"}),
    ),
    SERVICE_IDENTITY: Behaviour(
        name=_identity_name,
        computed=_identity_computed,
        rules=lambda inputs: matches(inputs, "service", _SERVICE, "a service, like pubsub.googleapis.com"),
        immutable=frozenset({"service", "project"}),
    ),
}
