"""The platform's own check of a caller, before a request reaches a service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from multidict import CIMultiDictProxy

from runtime.contract.names import STRIPPED_SIGNATURE
from sandbox.cloud_run.declared import DeclaredService
from sandbox.identity.grants import Grants
from sandbox.network import Address
from sandbox.world import Kind, Target

INVOKER: Final = ("roles/run.invoker", "roles/run.admin")
AUTHORIZATION: Final = "Authorization"
SERVERLESS_AUTHORIZATION: Final = "X-Serverless-Authorization"
_EVERYBODY: Final = "allUsers"


class Identity(Protocol):
    """What the front needs of the identity service."""

    grants: Grants

    def verify_id_token(self, token: str, audiences: Collection[str]) -> str | None:
        """The email of a token's account; None where the token is not valid for any of the audiences."""
        ...

    async def metadata_address(self, email: str) -> Address:
        """Where a process that runs as an account finds its metadata server."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """The platform's answer in a service's place."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request may pass.

    Attributes:
        header: the header that was checked; "" where none was.
        value: what the service sees in its place.
    """

    header: str = ""
    value: str = ""


def admit(headers: CIMultiDictProxy[str], service: DeclaredService, identity: Identity) -> Admitted | Refused:
    """Decides on a caller. A caller without the grant is named, with the grant, in the log."""
    target = Target(Kind.SERVICE, service.name)
    if not service.checks_invoker or identity.grants.missing(_EVERYBODY, INVOKER, target) is None:
        return Admitted()
    # Cloud Run looks at the first of these that is there, and at no other.
    header = SERVERLESS_AUTHORIZATION if SERVERLESS_AUTHORIZATION in headers else AUTHORIZATION
    value = headers.get(header)
    if value is None:
        return Refused(403, "the request was not authenticated: it carries no ID token")
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or len(headers.getall(header)) > 1:
        return Refused(401, f"{header} must be one `Bearer ID_TOKEN`")
    email = identity.verify_id_token(token, service.audiences)
    if email is None:
        return Refused(401, f"the ID token is not valid for {service.url}")
    if not identity.grants.allow(f"serviceAccount:{email}", INVOKER, target, step=f"call of {service.name}"):
        return Refused(403, f"{email} may not invoke {service.name}")
    return Admitted(header, f"{scheme} {_without_signature(token)}")


def _without_signature(token: str) -> str:
    return f"{token.rpartition('.')[0]}.{STRIPPED_SIGNATURE}"
