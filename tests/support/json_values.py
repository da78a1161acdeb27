"""JSON values for rules that hold for all of them; small, since depth and kind matter and size does not."""

from __future__ import annotations

from hypothesis import strategies as st

SAFE_INTEGER = 2**53 - 1
"""Largest integer with a canonical form, RFC 8785."""

texts = st.text(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-SAFE_INTEGER, SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
json_objects = st.dictionaries(texts, json_values, max_size=3)
