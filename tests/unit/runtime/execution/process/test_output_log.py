"""What a job prints reaches its events without the secrets in it, however it lies across reads and lines."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.execution.process.output_log import KEY_LINES, LINE_BYTES, OutputLog
from runtime.observability.redaction import MASK

SIGNED = "https://storage.googleapis.com/b/o?X-Goog-Signature=" + "5ec4e7" * 40
BODY = "MHcCAQEEIJ5ec4e7" * 4


async def _said(*chunks: bytes) -> list[str]:
    said: list[str] = []

    async def emit(event_type: str, payload: object) -> None:
        assert event_type == "log"
        assert isinstance(payload, dict)
        said.append(payload["message"])

    stream = asyncio.StreamReader()
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    await OutputLog(emit).follow(stream, "stdout")
    return said


@pytest.mark.parametrize("line", [f"got {SIGNED}", f"password={SIGNED}", f"Bearer {SIGNED}", f"{SIGNED}\r"])
async def test_a_printed_secret_is_masked(line: str) -> None:
    (said,) = await _said(line.encode())
    assert MASK in said
    assert "5ec4e7" not in said


async def test_a_key_that_is_printed_over_several_lines_is_masked_to_its_end() -> None:
    lines = ["before", "-----BEGIN EC PRIVATE KEY-----", BODY, BODY, "-----END EC PRIVATE KEY-----", "after"]
    assert await _said("\n".join(lines).encode()) == ["before", MASK, MASK, MASK, MASK, "after"]


async def test_a_key_in_one_line_costs_the_next_ones_nothing() -> None:
    line = f"-----BEGIN PRIVATE KEY-----{BODY}-----END PRIVATE KEY-----"
    assert await _said(f"{line}\nafter".encode()) == [MASK, "after"]


async def test_a_key_that_never_ends_masks_as_much_as_the_longest_one_takes() -> None:
    said = await _said(("-----BEGIN PRIVATE KEY-----\n" + "line\n" * (KEY_LINES + 5)).encode())
    assert said == [MASK] * (KEY_LINES + 1) + ["line"] * 5


@given(st.integers(LINE_BYTES // 2, LINE_BYTES))
async def test_a_long_line_is_cut_between_words_so_that_a_secret_stays_whole(before: int) -> None:
    said = await _said(b"x" * before + b" " + SIGNED.encode() + b" after")
    assert "5ec4e7" not in "".join(said)
    assert "".join(said).endswith(" after")


async def test_a_long_word_is_cut_all_the_same() -> None:
    assert await _said(b"x" * 3 * LINE_BYTES) == ["x" * LINE_BYTES] * 3
