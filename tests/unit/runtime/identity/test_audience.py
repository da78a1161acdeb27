"""The audience, from the setting or from the host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.settings.rules import is_address
from runtime.identity.audience import audience_of_host, expected_audience

HOST = "worker-abc-uc.a.run.app"


@pytest.mark.parametrize("host", [HOST, HOST.upper(), f" {HOST}\t", f"{HOST}:443"])
def test_the_host_names_the_service(host: str) -> None:
    assert audience_of_host(host) == f"https://{HOST}"


@pytest.mark.parametrize(
    "host",
    [
        "", " ", "a.run.app:8443", "a.run.app:80", "a.run.app:443:443", "a@b", "a/b", "a\\b", "a,b", "a b", "a?b",
        "a#b", "a\n", "[::1]", "-a.run.app", "a-.run.app", ".a", "a.", "a..b", "ä.run.app", "a_b.run.app", "a" * 64,
        ".".join(["a" * 60] * 5), "https://a",
    ],
)  # fmt: skip
def test_what_is_no_host_gives_no_audience(host: str) -> None:
    """BR-28"""
    assert audience_of_host(host) is None


def test_a_pinned_audience_is_taken_whatever_the_host_says() -> None:
    """BR-28"""
    assert expected_audience("https://pinned.example", "evil.test") == "https://pinned.example"
    assert expected_audience(None, HOST) == f"https://{HOST}"
    assert expected_audience(None, "a@b") is None


@given(st.text(max_size=80) | st.text("abc.-:@/443", max_size=20))
def test_a_derived_audience_has_the_shape_of_a_pinned_one(host: str) -> None:
    audience = audience_of_host(host)
    assert audience is None or is_address(audience)
