"""No way to write a line goes around the filter: whoever logs, whatever is logged, however it failed."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import structlog

from runtime.observability import logs
from runtime.observability.log_context import bound_fields
from runtime.observability.redaction import MASK, redact, redact_text

OPAQUE: Final = "s3cr3t-of-no-known-form"
JWT: Final = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
ours: Any = structlog.get_logger()
library: Final = logging.getLogger("library")


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure("worker", "info", stream)
    yield stream
    logging.getLogger().handlers = []
    structlog.reset_defaults()


class Unprintable:
    def __str__(self) -> str:
        raise ValueError(OPAQUE)

    __repr__ = __str__


def failing() -> ValueError:
    """An error whose frames hold secrets in variables of harmless names."""
    body, headers = f"payload {OPAQUE}".encode(), {"Authorization": f"Bearer {OPAQUE}"}
    cause = KeyError(f"password={OPAQUE}")
    try:
        raise ValueError(f"failed with {JWT}", len(body), len(headers)) from cause  # noqa: TRY301 - its frame is what is looked at
    except ValueError as error:
        error.add_note(f"Authorization: Bearer {OPAQUE}")
        return error


def in_context(**fields: object) -> None:
    with bound_fields(**fields):
        ours.info("line")


WAYS: Final[dict[str, Callable[[], None]]] = {
    "field": lambda: ours.info("line", password=OPAQUE, executor_jwt=OPAQUE, lease_token=OPAQUE),
    "text": lambda: ours.info("line", detail=f"Authorization: Bearer {OPAQUE}"),
    "event": lambda: ours.info(f"token={OPAQUE} and {JWT}"),
    "deep": lambda: ours.info("line", request={"headers": [{"Authorization": OPAQUE}, ("x", f"Bearer {OPAQUE}")]}),
    "key": lambda: ours.info("line", seen={f"Bearer {OPAQUE}": 1, JWT: 2}),
    "bytes": lambda: ours.info("line", body=OPAQUE.encode(), buffer=bytearray(OPAQUE.encode())),
    "nested bytes": lambda: ours.info("line", bodies=[memoryview(OPAQUE.encode())]),
    "object": lambda: ours.info("line", error=ValueError(f"api_key: {OPAQUE}")),
    "unprintable": lambda: ours.info("line", thing=Unprintable()),
    "bound": lambda: ours.bind(secret=OPAQUE).info("line"),
    "context": lambda: in_context(backend_key=OPAQUE),
    "exception": lambda: ours.error("line", exc_info=failing()),
    "group": lambda: ours.error("line", exc_info=ExceptionGroup(f"Bearer {OPAQUE}", [failing(), failing()])),
    "library": lambda: library.error("failed with Bearer %s", OPAQUE),
    "library dictionary": lambda: library.error({"token": OPAQUE, "Cookie": OPAQUE}),
    "library arguments": lambda: library.error("%s %r", {"password": OPAQUE}, f"Bearer {OPAQUE}".encode()),
    "library extra": lambda: library.error("line", extra={"password": OPAQUE, "deep": {"a": [{"jwt": OPAQUE}]}}),
    "library exception": lambda: library.error("line", exc_info=failing()),
    "address": lambda: library.warning(
        "at postgres://user:%s@db/x and https://b/o?X-Goog-Signature=%s", OPAQUE, OPAQUE
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_no_way_of_logging_shows_a_secret(out: io.StringIO, way: Callable[[], None]) -> None:
    way()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert len(lines) == 1, "one line of JSON"
    assert {"severity", "event", "time", "role"} <= set(lines[0])
    assert OPAQUE not in out.getvalue()
    assert "eyJ" not in out.getvalue()


def test_a_traceback_has_its_frames_and_none_of_their_variables(out: io.StringIO) -> None:
    ours.error("line", exc_info=failing())
    [line] = [json.loads(line) for line in out.getvalue().splitlines()]
    frames = [frame for part in line["exception"] for frame in part["frames"]]
    assert {frame["name"] for frame in frames} == {"failing"}
    assert all(not frame.get("locals") for frame in frames)


@pytest.mark.parametrize(
    "text",
    [
        "the token is not signed with RS256, or names no key",
        "the Authorization header is not a bearer token",
        "push_token_rejected: the token has expired",
        "set PUBSUB_PUSH_AUDIENCE to the service's address",
        "subscription=projects/p-test/subscriptions/exec-sub attempts=3",
        "3 attempts have worked on the message, 3 are allowed",
    ],
)
def test_what_only_speaks_of_secrets_is_left_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "plain", ["a", {"b": None}]])
def test_what_holds_no_secret_keeps_its_value(value: object) -> None:
    assert redact(value) == value


def test_what_is_too_deep_to_look_at_is_not_shown() -> None:
    value: Any = OPAQUE
    for _ in range(12):
        value = [value]
    assert OPAQUE not in json.dumps(redact(value))
    assert MASK not in json.dumps(redact(["a"]))


@pytest.mark.parametrize("unit", ["eyJ", "eyJaaaaaa.", "a-", "-----BEGIN ", "://a:", "password", "token=", "Bearer "])
def test_a_hostile_text_is_looked_through_once(unit: str) -> None:
    """A pattern that began anew at each place would take hours for these."""
    assert len(redact_text(unit * (2**19 // len(unit)) + "=")) > 0
