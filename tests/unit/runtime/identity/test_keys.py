"""Pairs of job keys."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from runtime.contract.settings.job_keys import is_private_key, is_public_key
from runtime.identity.job_token import JobSigner, JobVerifier
from runtime.identity.keys import (
    UnusableKey,
    belong_together,
    environment_value,
    generate_job_keys,
    pem_of_environment,
    public_key_of,
)

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def test_a_new_pair_is_one_that_settings_accept() -> None:
    keys = generate_job_keys()
    assert is_private_key(environment_value(keys.private_pem))
    assert is_public_key(environment_value(keys.public_pem))
    assert pem_of_environment(environment_value(keys.public_pem)) == keys.public_pem
    with pytest.raises(UnusableKey):
        pem_of_environment(keys.public_pem)
    assert generate_job_keys() != keys


def test_the_public_half_follows_from_the_private_one() -> None:
    keys, other = generate_job_keys(), generate_job_keys()
    assert public_key_of(keys.private_pem) == keys.public_pem
    assert belong_together(keys.private_pem, keys.public_pem + "\n")
    assert not belong_together(keys.private_pem, other.public_pem)


def test_no_text_of_a_pair_shows_its_private_half() -> None:
    assert "PRIVATE" not in repr(generate_job_keys())


def test_keys_of_another_kind_are_refused() -> None:
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 2048)):
        private = key.private_bytes(PEM, PKCS8, serialization.NoEncryption()).decode()
        public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
        with pytest.raises(UnusableKey):
            public_key_of(private)
        with pytest.raises(UnusableKey):
            JobSigner(private, "k1")
        with pytest.raises(UnusableKey):
            JobVerifier(public, "k1")


def test_an_encrypted_key_is_refused() -> None:
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        PEM, PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    with pytest.raises(UnusableKey):
        public_key_of(locked.decode())
