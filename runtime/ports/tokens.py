"""The process's own identity, and the public keys of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runtime.contract.errors import Decision, HoldfastError


class TokenUnavailable(HoldfastError):
    """A token or key set could not be fetched."""

    code = "token_unavailable"
    decision = Decision.RETRY


class Tokens(Protocol):
    """Tokens of the service account that the process runs as."""

    async def access_token(self, scope: str) -> str:
        """A token for Google's APIs with the given scope, valid for at least 30 s more.

        Raises:
            TokenUnavailable
        """
        ...

    async def id_token(self, audience: str) -> str:
        """An OIDC token for one audience, valid for at least 30 s more.

        Raises:
            TokenUnavailable
        """
        ...


class KeySource(Protocol):
    """Where the signing keys of push and service tokens are read."""

    async def fetch(self) -> Mapping[str, Mapping[str, object]]:
        """The present key set: key id -> JWK. Never empty.

        Raises:
            TokenUnavailable: unreachable, not a key set, or empty.
        """
        ...
