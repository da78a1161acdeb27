"""Standard base64, exactly: nothing is skipped, nothing is repaired."""

from __future__ import annotations

import base64
import binascii


def decode_base64(text: str) -> bytes | None:
    """The decoded bytes; None where `text` is not what encoding those bytes gives.

    Refused are foreign characters, blanks, the URL alphabet, missing or superfluous padding, data after padding, and
    bits that padding hides: each of them would let two texts stand for the same bytes.
    """
    try:
        raw = text.encode("ascii")
        decoded = binascii.a2b_base64(raw)
    except (UnicodeEncodeError, binascii.Error):
        return None
    return decoded if base64.b64encode(decoded) == raw else None
