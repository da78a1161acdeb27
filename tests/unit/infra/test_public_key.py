"""The public key of a stack follows from its signing key, however that was written."""

from __future__ import annotations

import base64
from typing import Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from infra.public_key import derive_public_key, is_signing_key
from runtime.contract.settings.job_keys import is_same_public_key
from tests.support.job_keys import pair
from tests.support.stacks import loaded, refused

P256: Final = bytes.fromhex("a00a06082a8648ce3d030107")
ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve, SEC 2 section 2.4.2: private keys are smaller."""


def traditional(number: int, point: bytes = b"") -> str:
    """A key as `openssl ec -no_public` writes it, or with a point beside it: RFC 5915 section 3."""
    public = bytes.fromhex("a144034200") + point if point else b""
    body = bytes.fromhex("0201010420") + number.to_bytes(32, "big") + P256 + public
    text = base64.b64encode(bytes([0x30, len(body)]) + body).decode()
    pem = f"-----BEGIN EC PRIVATE KEY-----\n{text[:64]}\n{text[64:]}\n-----END EC PRIVATE KEY-----\n"
    return base64.b64encode(pem.encode()).decode()


def number_and_point(name: str) -> tuple[int, bytes]:
    key = serialization.load_pem_private_key(pair(name).keys.private_pem.encode(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    points = serialization.PublicFormat.UncompressedPoint
    return key.private_numbers().private_value, key.public_key().public_bytes(serialization.Encoding.X962, points)


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_a_key_gives_its_public_half_with_or_without_that_half_inside(name: str) -> None:
    number, point = number_and_point(name)
    for written in (pair(name).private, traditional(number), traditional(number, point)):
        assert is_signing_key(written)
        assert derive_public_key(written) == pair(name).public, "the very text that `openssl pkey -pubout` gives"


def test_every_service_is_told_the_public_half_of_the_key_that_signs() -> None:
    other = pair("other")
    assert loaded(signing_key=other.private).signing_public_key == other.public
    assert other.private not in repr(loaded(signing_key=other.private))


def test_what_has_the_form_of_a_key_and_is_none_is_refused() -> None:
    number, _ = number_and_point("first")
    _, foreign = number_and_point("second")
    for written in (traditional(0), traditional(ORDER), traditional(number, foreign), pair().public, ""):
        assert not is_signing_key(written)
        (line,) = refused(signing_key=written)
        assert line.startswith("invalid_stack_value: holdfast:signing_key is its value (hidden), but must be strict")
    assert derive_public_key(None) is None


def test_a_public_key_that_was_set_beside_the_signing_key_is_refused_and_not_repeated() -> None:
    """It could differ, and every job would be refused."""
    (line,) = refused(signing_public_key=pair("other").public)
    assert line.endswith("holdfast:signing_public_key is no setting, it follows from holdfast:signing_key; remove it")
    assert pair("other").public not in line


def test_two_keys_are_one_however_their_pems_are_written() -> None:
    pem = pair().keys.public_pem
    wrapped = base64.b64encode(pem.replace("\n", "\r\n").encode()).decode()
    assert is_same_public_key(pair().public, wrapped)
    assert not is_same_public_key(pair().public, pair("other").public)
    assert not is_same_public_key(None, None)
    assert not is_same_public_key("", "")
