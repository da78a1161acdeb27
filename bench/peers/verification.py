"""The checks that every Python peer makes, by hand on `cryptography`: the fastest of the usual ways."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

CAPACITY: Final = 1024
"""Tokens kept, as in the worker."""


class Refused(Exception):
    """A token that does not hold."""


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class PushTokens:
    """RS256 tokens of one identity: key by its id, signature, claims; valid ones are kept by the whole token."""

    def __init__(self, jwks: bytes, audience: str, account: str) -> None:
        self._keys = {
            key["kid"]: rsa.RSAPublicNumbers(
                int.from_bytes(_decoded(key["e"]), "big"), int.from_bytes(_decoded(key["n"]), "big")
            ).public_key()
            for key in json.loads(jwks)["keys"]
        }
        self._audience = audience
        self._account = account
        self._valid: OrderedDict[str, float] = OrderedDict()

    def check(self, authorization: str | None) -> None:
        """Returns where the caller is the one; raises Refused."""
        if authorization is None or not authorization.startswith("Bearer "):
            raise Refused
        token, now = authorization[7:], time.time()
        expires = self._valid.get(token)
        if expires is not None and expires > now:
            return
        signed, _, signature = token.rpartition(".")
        header, _, claims = signed.partition(".")
        head, said = json.loads(_decoded(header)), json.loads(_decoded(claims))
        key = self._keys.get(head.get("kid"))
        if key is None or head.get("alg") != "RS256":
            raise Refused
        try:
            key.verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise Refused from None
        if (
            said.get("aud") != self._audience
            or said.get("iss") not in {"https://accounts.google.com", "accounts.google.com"}
            or said.get("email") != self._account
            or said.get("email_verified") is not True
            or not said.get("iat", now + 60) - 30 <= now < said.get("exp", 0) + 30
        ):
            raise Refused
        self._valid[token] = said["exp"]
        if len(self._valid) > CAPACITY:
            self._valid.popitem(last=False)


class Jobs:
    """Jobs of the executor: ES256 token, and the hash over the RFC 8785 form of everything else."""

    def __init__(self, public_pem: str) -> None:
        key = load_pem_public_key(public_pem.encode())
        assert isinstance(key, ec.EllipticCurvePublicKey)
        self._key = key

    def check(self, job: Mapping[str, Any]) -> None:
        """Returns where the job is as it was signed; raises Refused."""
        signed, _, signature = str(job.get("executor_jwt")).rpartition(".")
        raw = _decoded(signature)
        pair = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._key.verify(pair, signed.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise Refused from None
        claims, now = json.loads(_decoded(signed.partition(".")[2])), time.time()
        form = rfc8785.dumps({name: value for name, value in job.items() if name != "executor_jwt"})
        digest = hashlib.sha256(b"holdfast-dispatch/v1\0" + form).hexdigest()
        if digest != claims["dispatch_hash"] or not claims["nbf"] - 30 <= now < claims["exp"] + 30:
            raise Refused
        if any(claims[name] != job.get(name) for name in ("run_id", "app_id", "job_id", "callback_url")):
            raise Refused
