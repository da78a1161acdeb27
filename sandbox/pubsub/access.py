"""Roles that Pub/Sub's steps need, and who a caller is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from runtime.contract.errors import Decision, HoldfastError
from runtime.contract.names import SCOPE_PUBSUB
from sandbox.identity.server import IdentityService
from sandbox.world import Target

_ANY_EDITOR: Final = ("roles/pubsub.editor", "roles/pubsub.admin", "roles/editor", "roles/owner")
PUBLISH: Final = ("roles/pubsub.publisher", *_ANY_EDITOR)
"""Publish to a topic."""
CONSUME: Final = ("roles/pubsub.subscriber", *_ANY_EDITOR)
"""Pull, acknowledge and change deadlines; for the service agent, take dead letters out of a subscription."""
VIEW: Final = ("roles/pubsub.viewer", *_ANY_EDITOR)
"""Read topics and subscriptions as resources; neither publisher nor subscriber includes it."""
MINT: Final = ("roles/iam.serviceAccountTokenCreator", "roles/iam.serviceAccountOpenIdTokenCreator")
"""Make ID tokens of an account."""
WRITE_OBJECTS: Final = (
    "roles/storage.objectCreator",
    "roles/storage.objectUser",
    "roles/storage.objectAdmin",
    "roles/storage.admin",
)
"""Create objects in a bucket."""
READ_BUCKET: Final = ("roles/storage.legacyBucketReader", "roles/storage.legacyBucketWriter", "roles/storage.admin")
"""Read what a bucket is; no role for objects includes it."""
AGENT: Final = "gcp-sa-pubsub"
"""Product name of Pub/Sub's service agent."""


class Unauthenticated(HoldfastError):
    """The call has no access token that is known, not over and for Pub/Sub."""

    code = "unauthenticated"
    decision = Decision.REFUSED


class PermissionMissing(HoldfastError):
    """The caller is known and lacks a grant; the message names it."""

    code = "permission_denied"
    decision = Decision.REFUSED


class Access:
    """Checks callers.

    Args:
        identity: knows the tokens and the grants.
    """

    def __init__(self, identity: IdentityService) -> None:
        self._identity = identity

    def caller(self, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """The calling account's member string, from a call's metadata.

        Raises:
            Unauthenticated
        """
        values = [value for key, value in metadata if key == "authorization"]
        if len(values) != 1 or not isinstance(values[0], str) or not values[0].startswith("Bearer "):
            raise Unauthenticated("the call has no metadata `authorization: Bearer ACCESS_TOKEN`; send exactly one")
        email = self._identity.authenticate(values[0].removeprefix("Bearer "), SCOPE_PUBSUB)
        if email is None:
            raise Unauthenticated(
                f"the access token is unknown, over, or lacks the scope {SCOPE_PUBSUB}; fetch one with that scope"
            )
        return f"serviceAccount:{email}"

    def require(self, member: str, roles: tuple[str, ...], target: Target) -> None:
        """Refuses a caller that holds none of the roles.

        Raises:
            PermissionMissing
        """
        missing = self._identity.grants.missing(member, roles, target)
        if missing is not None:
            raise PermissionMissing(str(missing))
