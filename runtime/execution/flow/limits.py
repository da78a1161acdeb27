"""Every limit of the flow engine. They are part of the format: docs/flow-format.md lists them."""

from __future__ import annotations

from typing import Final

from runtime.contract.limits import INLINE_PAYLOAD_BYTES, MIB

DEFINITION_BYTES: Final = INLINE_PAYLOAD_BYTES
"""Largest definition; it travels with the run's payload."""
DEFINITION_DEPTH: Final = 32
"""Deepest nesting of a value or condition inside a definition."""
FAULTS: Final = 100
"""Faults that one check reports."""
NODES: Final = 500
"""Nodes of a definition, all its flows together."""
FLOWS: Final = 50
"""Named sub flows."""
CASES: Final = 100
"""Cases of one branch, and members of one `and` or `or`."""
TEMPLATE_CHARACTERS: Final = 16 * 1024
"""Longest text that has `${...}` in it."""
TEMPLATE_PARTS: Final = 200
"""Most `${...}` in one text."""
PATH_CHARACTERS: Final = 512
"""Longest path."""
PATH_STEPS: Final = 32
"""Most steps of a path."""
COMMENT_CHARACTERS: Final = 2000
"""Longest comment."""

STEPS: Final = 100_000
"""Nodes and map items that one run may start, sub flows and repetitions included."""
CALL_DEPTH: Final = 8
"""Sub flows inside each other."""
MAP_ITEMS: Final = 10_000
"""Items of one map."""
MAP_CONCURRENCY: Final = 16
"""Items of one map at a time."""
RUN_CONCURRENCY: Final = 64
"""Items of all maps of a run at a time; above it a map goes on with one."""
VALUE_BYTES: Final = MIB
"""Largest value of one node, roughly as JSON."""
STATE_BYTES: Final = 16 * MIB
"""All values that a run holds at one time."""
SECONDS: Final = 3600
"""Longest sleep and longest time limit of a node."""

HTTP_SECONDS: Final = 30
"""Time limit of an `http` node that gives none."""
HTTP_CONNECT_SECONDS: Final = 5
"""Part of it for resolving and connecting."""
HTTP_REQUEST_BYTES: Final = MIB
"""Largest body that is sent."""
HTTP_RESPONSE_BYTES: Final = MIB
"""Largest body that is read."""
URL_CHARACTERS: Final = 2048
"""Longest address."""
HEADERS: Final = 50
"""Headers of one request."""
HEADER_CHARACTERS: Final = 8 * 1024
"""Longest value of a header."""

YIELD_WEIGHT: Final = 32
"""The loop gets a turn after steps of this weight; a step weighs 1, and 1 more for every YIELD_BYTES of its value."""
YIELD_BYTES: Final = 4096
