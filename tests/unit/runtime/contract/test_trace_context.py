"""Trace headers, from anybody."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.contract.trace_context import STATE_CHARACTERS, TraceContext

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def hexadecimal(digits: int) -> st.SearchStrategy[str]:
    return st.integers(1, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


@given(
    st.builds(
        TraceContext, hexadecimal(32), hexadecimal(16), st.booleans(), st.sampled_from(["", "vendor=1", "a=b,c=d"])
    )
)
def test_a_context_is_read_back_as_it_was_carried(context: TraceContext) -> None:
    headers = context.headers()
    assert TraceContext.read(headers["traceparent"], headers.get("tracestate")) == context


@pytest.mark.parametrize(
    "parent",
    [
        None, "", "00", f"00-{TRACE}-{SPAN}", f"ff-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1", f"00-{TRACE}-{SPAN}-01\n-x", f"{TRACE}-{SPAN}",
    ],
)  # fmt: skip
def test_what_is_no_context_begins_a_trace_of_its_own(parent: str | None) -> None:
    assert TraceContext.read(parent, "vendor=1") is None


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert TraceContext.read(f"01-{TRACE}-{SPAN}-09-more") == TraceContext(TRACE, SPAN, sampled=True)


@given(st.text(max_size=80), st.none() | st.text(max_size=80))
@example(f"00-{TRACE}-{SPAN}-00", "x" * (STATE_CHARACTERS + 1))
@example(f"00-{TRACE}-{SPAN}-00", "a=b\r\nx-injected: 1")
def test_no_header_raises_or_is_carried_on_with_more_than_a_header_may_hold(parent: str, state: str | None) -> None:
    context = TraceContext.read(parent, state)
    for value in (context.headers() if context is not None else {}).values():
        assert value.isprintable()
        assert value.isascii()
        assert len(value) <= STATE_CHARACTERS
