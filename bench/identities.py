"""Signs what the load sends: tokens of the push identity, and jobs."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from bench.setup import Setup
from runtime.identity.job_token import JobSigner
from runtime.identity.keys import generate_job_keys

FLOW: Final = {"start": "done", "nodes": {"done": {"type": "set", "value": {"ok": True}, "next": None}}}
"""A flow that does nothing."""


class Identities:
    """Signs what the load sends."""

    def __init__(self, folder: Path, firestore: str = "") -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        job = generate_job_keys()
        numbers = self._key.public_key().public_numbers()
        jwks = folder / "jwks.json"
        self.setup = Setup(str(jwks), job.public_pem, firestore)
        self.file = folder / "setup.json"
        member = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.setup.kid}
        numbers_in = {"n": _encoded(numbers.n.to_bytes(256, "big")), "e": _encoded(numbers.e.to_bytes(3, "big"))}
        jwks.write_text(json.dumps({"keys": [{**member, **numbers_in}]}))
        self.setup.write(self.file)
        self._signer = JobSigner(job.private_pem, self.setup.job_kid)

    def push_token(self, number: int) -> str:
        """A token as Google makes them; each number gives another."""
        now = int(time.time())
        header = {"alg": "RS256", "kid": self.setup.kid, "typ": "JWT"}
        claims = {
            "aud": self.setup.audience, "azp": f"1{number:020d}", "email": self.setup.account, "email_verified": True,
            "exp": now + 3600, "iat": now, "iss": "https://accounts.google.com", "sub": f"1{number:020d}",
        }  # fmt: skip
        signed = ".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def job(self, run_id: str, payload: object, *, engine: str, mode: str) -> bytes:
        """A signed job as the API sends it to the executor."""
        body: dict[str, Any] = {
            "job_id": f"{run_id}.1", "run_id": run_id, "app_id": "bench", "user_id": "somebody", "engine": engine,
            "spec": FLOW if engine == "flow" else {}, "payload": payload, "timeout_ms": 600_000, "max_attempts": 1,
            "execution_mode": mode, "callback_url": "https://api.example",
        }  # fmt: skip
        body["executor_jwt"] = self._signer.sign(
            body, subject="somebody", lifetime=timedelta(hours=1), now=datetime.now(UTC)
        )
        return json.dumps(body).encode()


def push_body(message_id: str, subscription: str) -> bytes:
    """A wrapped envelope of about 1 kB."""
    data = base64.b64encode(json.dumps({"v": 1, "job_id": "r.1", "payload": {"text": "x" * 440}}).encode()).decode()
    message = {
        "attributes": {"app": "bench", "kind": "execution"}, "data": data, "messageId": message_id,
        "message_id": message_id, "publishTime": "2026-01-01T00:00:00.123Z", "publish_time": "2026-01-01T00:00:00.123Z",
    }  # fmt: skip
    return json.dumps({"deliveryAttempt": 1, "message": message, "subscription": subscription}).encode()


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
