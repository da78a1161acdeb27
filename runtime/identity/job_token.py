"""Tokens of jobs: signed by the API, checked wherever a job is run, and again on each of its callbacks."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from runtime.contract import names
from runtime.contract.errors import HoldfastError
from runtime.contract.settings.verifying_keys import PreviousKey
from runtime.identity.compact_token import LEEWAY, TokenMalformed, numeric_date, parse_token
from runtime.identity.keys import UnusableKey, pem_of_environment
from runtime.identity.payload_hash import TOKEN_FIELD, PayloadNotCanonical, dispatch_hash
from runtime.identity.signatures import JOSEError, Key, jwk, jws

ALGORITHM: Final = "ES256"
MATCHED: Final = ("run_id", "app_id", "job_id", "callback_url")
"""Claims that are copies of fields of the payload."""
CLOCKS_APART: Final = timedelta(minutes=5)
"""How far before its signature a token is valid: a worker whose clock is slow would refuse genuine jobs for good."""


class JobRefused(HoldfastError):
    """A job that is not what the API signed; permanent, no repetition makes it so.

    Codes: `job_token_invalid`, `job_token_expired`, `job_payload_mismatch`.
    """

    code = "job_token_invalid"


class JobClaims(Struct, frozen=True):
    """What a verified token says.

    Attributes:
        subject: who asked for the run.
        run_id: the run.
        app_id: the caller's application.
        job_id: the run's generation.
        callback_url: base of the callbacks.
        dispatch_hash: see `payload_hash`.
        token_id: unique per token.
        issued_at: UTC.
        expires_at: UTC.
    """

    subject: str
    run_id: str
    app_id: str
    job_id: str
    callback_url: str
    dispatch_hash: str
    token_id: str
    issued_at: datetime
    expires_at: datetime


class JobSigner:
    """Signs jobs.

    Args:
        private_pem: EC P-256, unencrypted.
        kid: id of the key, put into each header.

    Raises:
        UnusableKey
    """

    def __init__(self, private_pem: str, kid: str) -> None:
        self._key = _key(private_pem)
        self._kid = kid

    def sign(self, payload: Mapping[str, object], *, subject: str, lifetime: timedelta, now: datetime) -> str:
        """A token for a payload, to be put into it as `executor_jwt`.

        Args:
            payload: the whole job but for its token; `MATCHED` are texts in it.
            subject: who asked for the run.
            lifetime: from now to expiry; whole seconds.
            now: UTC.

        Raises:
            PayloadNotCanonical
            JobRefused: `job_payload_mismatch`, where the subject or a field of `MATCHED` is missing.
        """
        issued = int(now.timestamp())
        claims: dict[str, object] = {
            "iss": names.JOB_ISSUER,
            "aud": names.JOB_AUDIENCE,
            "typ": names.JOB_TOKEN_TYPE,
            "sub": _text_of({"subject": subject}, "subject"),
            **{name: _text_of(payload, name) for name in MATCHED},
            "iat": issued,
            "nbf": issued - CLOCKS_APART // timedelta(seconds=1),
            "exp": issued + lifetime // timedelta(seconds=1),
            "jti": secrets.token_hex(16),
            "dispatch_hash": dispatch_hash(payload),
        }
        return jws.sign(claims, self._key, headers={"kid": self._kid}, algorithm=ALGORITHM)


class JobVerifier:
    """Verifies jobs and their tokens. Pure: nothing is fetched, nothing is kept.

    Args:
        public_pem: EC P-256.
        kid: its id.
        previous: a second key, which verifies the tokens that name its id; None: the first is the only one.

    Raises:
        UnusableKey
    """

    def __init__(self, public_pem: str, kid: str, previous: PreviousKey | None = None) -> None:
        self._keys = {kid: _key(public_pem)}
        if previous is not None:
            self._keys.setdefault(previous.kid, _key(pem_of_environment(previous.pub)))

    def verify(self, payload: Mapping[str, object], now: datetime) -> JobClaims:
        """Checks a job as received: its token, and that every field is as it was signed.

        Raises:
            JobRefused
        """
        claims = self.verify_token(_text_of(payload, TOKEN_FIELD, code="job_token_invalid"), now)
        for name in MATCHED:
            if payload.get(name) != getattr(claims, name):
                raise JobRefused(f"the payload's {name} is not the one that was signed", code="job_payload_mismatch")
        try:
            same = hmac.compare_digest(dispatch_hash(payload), claims.dispatch_hash)
        except PayloadNotCanonical as error:
            raise JobRefused(str(error), code="job_payload_mismatch") from None
        if not same:
            raise JobRefused(
                f"the payload of job {claims.job_id} is not the one that was signed", code="job_payload_mismatch"
            )
        return claims

    def verify_token(self, token: str, now: datetime) -> JobClaims:
        """Checks a token alone, as callbacks carry it.

        Raises:
            JobRefused: `job_token_invalid`, `job_token_expired`.
        """
        try:
            parsed = parse_token(token)
        except TokenMalformed as error:
            raise JobRefused(str(error)) from None
        kid = parsed.header.get("kid")
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None or parsed.header.get("alg") != ALGORITHM:
            accepted = " or ".join(map(repr, self._keys))
            raise JobRefused(f"a job's token is signed with {ALGORITHM} and the key {accepted}")
        if not key.verify(parsed.signed, parsed.decoded_signature):
            raise JobRefused("the signature of the job's token does not hold")
        return _job_claims(parsed.claims, now.timestamp())


def _job_claims(claims: Mapping[str, object], now: float) -> JobClaims:
    for name, expected in (("iss", names.JOB_ISSUER), ("aud", names.JOB_AUDIENCE), ("typ", names.JOB_TOKEN_TYPE)):
        if claims.get(name) != expected:
            raise JobRefused(f"the claim {name} of the job's token is not {expected!r}")
    issued, begins, expires = (_time(claims, name) for name in ("iat", "nbf", "exp"))
    if begins > now + LEEWAY:
        raise JobRefused("the job's token is not valid yet; is the clock of this machine slow?")
    if expires < now - LEEWAY:
        raise JobRefused("the job's token has expired; a replay signs a new one", code="job_token_expired")
    return JobClaims(
        subject=_text_of(claims, "sub", code="job_token_invalid"),
        run_id=_text_of(claims, "run_id", code="job_token_invalid"),
        app_id=_text_of(claims, "app_id", code="job_token_invalid"),
        job_id=_text_of(claims, "job_id", code="job_token_invalid"),
        callback_url=_text_of(claims, "callback_url", code="job_token_invalid"),
        dispatch_hash=_text_of(claims, "dispatch_hash", code="job_token_invalid"),
        token_id=_text_of(claims, "jti", code="job_token_invalid"),
        issued_at=datetime.fromtimestamp(issued, UTC),
        expires_at=datetime.fromtimestamp(expires, UTC),
    )


def _time(claims: Mapping[str, object], name: str) -> float:
    value = numeric_date(claims, name)
    if value is None:
        raise JobRefused(f"the claim {name} of the job's token is not a time")
    return value


def _text_of(fields: Mapping[str, object], name: str, *, code: str = "job_payload_mismatch") -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise JobRefused(f"{name} is not a text", code=code)
    return value


def _key(pem: str) -> Key:
    try:
        key = jwk.construct(pem, algorithm=ALGORITHM)
        curve = key.to_dict()["crv"]
    except (JOSEError, KeyError, AttributeError):
        raise UnusableKey("not an EC key in PEM") from None
    if curve != "P-256":
        raise UnusableKey(f"a key of the curve {curve}; {ALGORITHM} needs P-256")
    return key
