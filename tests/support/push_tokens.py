"""The identity that pushes, as a worker meets it: tokens, keys, and the verifier over both."""

from __future__ import annotations

from typing import Any

from runtime.contract.settings.worker import WorkerSettings
from runtime.identity.key_cache import KeyCache
from runtime.identity.push_token import PushVerifier
from runtime.ports.clock import Clock
from tests.support.claims import AUDIENCE, PUSH_ACCOUNT
from tests.support.google_tokens import KeyServer, google_token


class PushIdentity:
    """Makes push tokens; `keys` is the server of their keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.keys = KeyServer()

    def token(self, **changes: Any) -> bytes:
        """A good token; `changes` replace its claims."""
        now = int(self._clock.now().timestamp())
        claims = {
            "iss": "https://accounts.google.com", "aud": AUDIENCE, "sub": "1", "email": PUSH_ACCOUNT,
            "email_verified": True, "iat": now, "exp": now + 3600, **changes,
        }  # fmt: skip
        return google_token(claims).encode()

    def verifier(self, settings: WorkerSettings) -> PushVerifier:
        keys = KeyCache(self.keys, self._clock, settings.key_grace)
        return PushVerifier(settings.push_auth, settings.push_service_account, keys, self._clock)
