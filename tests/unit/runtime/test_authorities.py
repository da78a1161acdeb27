"""A start does not read every authority of the machine, and TLS trusts the same ones: real contexts, over memory."""

from __future__ import annotations

import hashlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from runtime.authorities import authorities_on_demand

PEM = serialization.Encoding.PEM


class Authority:
    """Signs the certificates of servers called `localhost`."""

    def __init__(self, name: str) -> None:
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed(self.name, self._key, x509.BasicConstraints(ca=True, path_length=None))

    def in_folder(self, folder: Path) -> None:
        """Puts the certificate where OpenSSL looks for its name: the hash of the name, without the outer sequence."""
        hashed = int.from_bytes(hashlib.sha1(self.name.public_bytes()[2:]).digest()[:4], "little")  # noqa: S324
        (folder / f"{hashed:08x}.0").write_bytes(self.certificate)

    def server(self, folder: Path) -> ssl.SSLContext:
        """A server's side, with a certificate of this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        clear = serialization.NoEncryption()
        private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, clear)
        chain = folder / "server.pem"
        chain.write_bytes(private + self._signed(name, key, x509.SubjectAlternativeName([x509.DNSName("localhost")])))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        return context

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(self.name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(PEM)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's store: `bundle.pem`, and an empty folder `certs`."""
    (tmp_path / "certs").mkdir()
    (tmp_path / "bundle.pem").touch()
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "certs"))
    paths = ssl.get_default_verify_paths()._replace(cafile=str(tmp_path / "bundle.pem"), capath=str(tmp_path / "certs"))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: paths)
    return tmp_path


def shake_hands(context: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """A handshake of a client with a server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, other, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_an_authority_of_the_folder_is_trusted_and_no_other(machine: Path) -> None:
    known, unknown = Authority("known"), Authority("unknown")
    known.in_folder(machine / "certs")
    (machine / "bundle.pem").write_bytes(known.certificate)
    with authorities_on_demand():
        client = ssl.create_default_context()
    assert client.cert_store_stats()["x509"] == 0, "the bundle was read"
    assert "SSL_CERT_FILE" not in os.environ, "what is started later is told nothing"
    shake_hands(client, known.server(machine))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client, unknown.server(machine))


@pytest.mark.parametrize("in_folder", [0, 1])
def test_a_bundle_with_more_than_the_folder_goes_on_being_read(machine: Path, in_folder: int) -> None:
    both = [Authority("first"), Authority("second")]
    for authority in both[:in_folder]:
        authority.in_folder(machine / "certs")
    (machine / "bundle.pem").write_bytes(b"".join(authority.certificate for authority in both))
    with authorities_on_demand():
        assert "SSL_CERT_FILE" not in os.environ


def test_a_bundle_that_the_environment_names_is_read(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = Authority("named")
    (machine / "named.pem").write_bytes(named.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(machine / "named.pem"))
    with authorities_on_demand():
        client = ssl.create_default_context()
    shake_hands(client, named.server(machine))
