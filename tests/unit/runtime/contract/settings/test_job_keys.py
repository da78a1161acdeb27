"""Job keys by their form, without a cryptography library; that library says here what the form means."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from runtime.contract.settings.job_keys import decode_pem, is_private_key, is_public_key
from tests.support.job_keys import pair

PEM = serialization.Encoding.PEM
PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo
PLAIN = serialization.NoEncryption()


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def changed(pem: str, at: int, byte: int) -> str:
    head, body, tail = pem.strip().split("-----\n")[0], "".join(pem.strip().split("\n")[1:-1]), pem.strip()[-24:]
    der = bytearray(base64.b64decode(body))
    der[at] = byte
    assert head.startswith("-----BEGIN")
    return encoded(f"{head}-----\n{base64.b64encode(bytes(der)).decode()}\n{tail}".encode())


def test_a_pair_of_the_right_curve_passes_in_every_common_form() -> None:
    for name in ("first", "second", "third"):
        assert is_public_key(pair(name).public)
        assert is_private_key(pair(name).private)
    key = ec.generate_private_key(ec.SECP256R1())
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    assert is_private_key(encoded(key.private_bytes(PEM, traditional, PLAIN)))


def test_other_keys_are_refused() -> None:
    other_curve = ec.generate_private_key(ec.SECP384R1())
    other_kind = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for key in (other_curve, other_kind):
        assert not is_public_key(encoded(key.public_key().public_bytes(PEM, PUBLIC)))
        assert not is_private_key(encoded(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, PLAIN)))
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    assert not is_private_key(encoded(encrypted))
    assert not is_public_key(pair().private)
    assert not is_private_key(pair().public)


def test_a_point_that_is_not_on_the_curve_is_refused() -> None:
    # One of the two may be what stands there already.
    assert not all(is_public_key(changed(pair().keys.public_pem, -1, last)) for last in (0, 1))
    assert is_public_key(changed(pair().keys.public_pem, 0, 0x30)), "the change itself keeps the form"


@pytest.mark.parametrize("value", ["", "cGVt", "-----BEGIN PUBLIC KEY-----", "é", "A" * 100])
def test_what_is_no_key_at_all_is_refused(value: str) -> None:
    assert not is_public_key(value)
    assert not is_private_key(value)


def test_a_value_is_decoded_to_the_pem_it_was_made_of() -> None:
    assert decode_pem(pair().public) == pair().keys.public_pem
    assert decode_pem("w6k=") is None, "a PEM is ASCII"
    assert decode_pem("no base64") is None
