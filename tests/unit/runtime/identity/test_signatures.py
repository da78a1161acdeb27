"""How python-jose is loaded, in fresh interpreters: a module is imported once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

LOADED = "import sys; from runtime.identity.signatures import JOSEError, jwk\n"
ASKED = LOADED + (
    "try: jwk.construct('-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----', 'RS256')\n"
    "except JOSEError: print('refused')"
)


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        pytest.param(LOADED + "print('cryptography.x509' in sys.modules)", "False", id="certificates are not loaded"),
        pytest.param(ASKED, "refused", id="a certificate is no key"),
        pytest.param(LOADED + "from cryptography import x509; print(bool(x509.Name))", "True", id="loaded afterwards"),
        pytest.param("import cryptography.x509\n" + ASKED, "refused", id="loaded before"),
    ],
)
def test_certificates_are_left_to_whoever_else_needs_them(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
