"""Tokens that somebody made to get a job past the executor, and bodies at the edge of what it takes."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jose import jws

from runtime.contract.limits import JOB_BODY_BYTES
from tests.support.google_tokens import encoded
from tests.support.job_keys import pair
from tests.support.served_executor import ServedExecutor

Forge = Callable[[dict[str, Any], str], str]
"""Claims of a genuine token and the id of its key -> another token."""


@cache
def _rsa_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _signed(algorithm: str, key: Callable[[], str], **header: str) -> Forge:
    return lambda claims, kid: jws.sign(claims, key(), headers={"kid": kid, **header}, algorithm=algorithm)


def _genuine_key() -> str:
    return pair().keys.private_pem


def _with(**claims: object) -> Forge:
    return lambda genuine, kid: _signed("ES256", _genuine_key)({**genuine, **claims}, kid)


def _unsigned(claims: dict[str, Any], kid: str) -> str:
    return f"{_part({'alg': 'none', 'kid': kid})}.{_part(claims)}."


def _public_key_as_secret(claims: dict[str, Any], kid: str) -> str:
    signed = f"{_part({'alg': 'HS256', 'kid': kid})}.{_part(claims)}"
    return f"{signed}.{encoded(hmac.digest(pair().keys.public_pem.encode(), signed.encode(), 'sha256'))}"


def _part(members: dict[str, Any]) -> str:
    return encoded(json.dumps(members).encode())


FORGERIES: dict[str, Forge] = {
    "RS256, with a key of the caller's": _signed("RS256", _rsa_key),
    "HS256, with the public key for a secret": _public_key_as_secret,
    "no algorithm and no signature": _unsigned,
    "a key that nobody has": _signed("ES256", _genuine_key, kid="other"),
    "another's key under the right id": _signed("ES256", lambda: pair("other").keys.private_pem),
    "for another audience": _with(aud="holdfast-api"),
    "from another issuer": _with(iss="https://accounts.google.com"),
    "of another type": _with(typ="user"),
    "not valid yet": _with(nbf=int(time.time()) + 3600),
}


async def test_no_forged_token_runs_a_job(served: ServedExecutor) -> None:
    job = served.job()
    claims = json.loads(jws.get_unverified_claims(job["executor_jwt"]))
    passed = []
    for name, forge in FORGERIES.items():
        token = forge(claims, served.settings.backend_kid)
        status, _, problem = await served.call("/execute", {**job, "executor_jwt": token})
        if (status, problem.get("code")) != (401, "job_token_invalid"):
            passed.append((name, status, problem))
    assert passed == []
    assert served.engines["counts"].contexts == [], "nothing was run"
    again = _signed("ES256", _genuine_key)(claims, served.settings.backend_kid)
    assert (await served.call("/execute", {**job, "executor_jwt": again}))[0] == 200, "the forger's tools work"


def _padded(served: ServedExecutor, size: int) -> bytes:
    """A signed job of exactly so many bytes."""
    body = json.dumps(served.job()).encode()
    return body[:-1] + b" " * (size - len(body)) + b"}"


async def test_a_body_may_have_every_byte_of_its_limit_and_not_one_more(served: ServedExecutor) -> None:
    assert (await served.call("/execute", _padded(served, JOB_BODY_BYTES)))[0] == 200
    status, _, problem = await served.call("/execute", _padded(served, JOB_BODY_BYTES + 1))
    assert (status, problem["code"]) == (413, "body_too_large")


async def test_a_body_in_chunks_is_cut_off_at_the_same_limit(served: ServedExecutor) -> None:
    def chunks() -> Iterator[bytes]:
        body = _padded(served, JOB_BODY_BYTES + 1)
        yield from (body[at : at + 65536] for at in range(0, len(body), 65536))

    async def sent() -> Any:
        for chunk in chunks():
            yield chunk

    async with served.session.post("/execute", data=sent(), headers={"Content-Type": "application/json"}) as response:
        assert (response.status, (await response.json(content_type=None))["code"]) == (413, "body_too_large")
    assert served.engines["counts"].contexts == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"max_attempts": 0}, 422), ({"max_attempts": 1}, 200), ({"timeout_ms": 1}, 200),
     ({"lease_token": "x" * 128}, 200), ({"lease_token": "x" * 129}, 422), ({"lease_token": ""}, 422)],
    ids=str,
)  # fmt: skip
async def test_a_number_or_a_text_is_taken_up_to_its_edge(
    served: ServedExecutor, changes: dict[str, Any], status: int
) -> None:
    assert (await served.call("/execute", served.job(**changes)))[0] == status


async def test_a_job_that_selects_a_definition_kept_elsewhere_is_refused_with_every_member_of_it(
    served: ServedExecutor,
) -> None:
    """The sentinel with its etag, a pinned version with one, an artifact: none of them is passed over."""
    latest = 4294967295
    for selector in (
        {"flow_version": [latest, latest, latest], "flow_etag": "x"},
        {"flow_version": [1, 0, 0], "flow_etag": ""},
        {"artifact": {"url": "https://storage.example/a"}},
    ):
        status, _, problem = await served.call("/execute", served.job(**selector))
        assert (status, problem["code"]) == (422, "invalid_execution_request")
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}" for name in selector]
        assert "storage.example" not in json.dumps(problem)
    assert served.apis == {}
