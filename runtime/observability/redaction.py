"""Keeps secrets out of logs, and out of what jobs say: a filter that every text passes, not a call to remember."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any, Final

MASK: Final = "[redacted]"

_SECRET_NAME: Final = re.compile(
    r"(authorization|cookie|password|passphrase|secret|credential|private|backend_key|jwt|api_key|lease_token)"
    r"|(^|_)(token|tokens)$",
    re.IGNORECASE,
)

_CREDENTIAL: Final = (
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?"  # a JWT, cut short or not
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)"
    r"|\bhf_[A-Za-z0-9-]+_[A-Za-z0-9_-]{16,}"  # an API key
    r"|\bya29\.[A-Za-z0-9_.-]{8,}"  # a Google access token
    # Parameters of a signed address, also of one inside another's query.
    r"|X-(?:Goog|Amz)-(?:Signature|Credential|Security-Token)(?:=|%(?:25)*3D)(?:(?!%(?:25)*26)[^&\s\"'])+"
    r"|(?:(?<=[?&])|(?<=%26)|(?<=%3F))(?:Signature|sig|token|access_token)(?:=|%3D)(?:(?!%26)[^&\s\"'])+"
    r"|(?<=://)[^/@\s\"':]+:[^/@\s\"']+(?=@)"  # user information in an address
)
"""What is a credential by its form, whoever says it and wherever."""

_SECRET_TEXT: Final = (
    _CREDENTIAL + r"|(?<=\bBearer )[^\s\"',;]{6,}|(?<=\bBasic )[^\s\"',;]{6,}"
    # The value after a secret's name, as in a setting, a header, or the text of a dictionary.
    r"|(?:authorization|cookie|password|passphrase|secret|credential|jwt|api_key|private_key|backend_key)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:Bearer|Basic)\s+)?[^\s\"',;)}\]]+"
    r"|(?<![A-Za-z0-9])tokens?(?:=|[\"']\s*:\s*)[\"']?[^\s\"',;)}\]]+"
)

_HINTS: Final = (
    "eyj", "hf_", "ya29.", "bearer", "basic", "authorization", "cookie", "pass", "secret", "credential", "jwt", "_key",
    "token",
)  # fmt: skip
"""Each alternative needs one of these, or a character of its own."""

_CLEAN: Final[set[str]] = set()
"""Short texts in which no alternative can match, never a secret: nearly every line repeats words of the one before."""
_CLEAN_TEXTS: Final = 4096
_CLEAN_CHARACTERS: Final = 128

_DEEPEST: Final = 8


def redact_text(text: str) -> str:
    """The text with everything that looks like a token, key, signed address or password masked."""
    if text in _CLEAN or text.isdecimal():
        return text
    if _may_hold_a_secret(text):
        return _secret_text().sub(MASK, text)
    _remember(text)
    return text


def redact_credentials(text: str) -> str:
    """The text with what is a credential by its form masked: for texts that are meant to be read, in which the word
    "password: " begins a sentence and not a secret.
    """
    if text in _CLEAN:
        return text
    if _may_hold_a_secret(text):
        return _credential().sub(MASK, text)
    _remember(text)
    return text


def _remember(text: str) -> None:
    if len(text) <= _CLEAN_CHARACTERS:
        if len(_CLEAN) >= _CLEAN_TEXTS:
            _CLEAN.clear()
        _CLEAN.add(text)


@functools.cache
def _credential() -> re.Pattern[str]:
    return re.compile(_CREDENTIAL, re.IGNORECASE | re.DOTALL)


@functools.cache
def _secret_text() -> re.Pattern[str]:
    """Made for the first text that needs it: most starts have none."""
    return re.compile(_SECRET_TEXT, re.IGNORECASE | re.DOTALL)


def _may_hold_a_secret(text: str) -> bool:
    """False where no alternative of the pattern can match: each needs one of these, and most texts have none."""
    if "=" in text or "%" in text or "-----" in text or ("@" in text and "://" in text):
        return True
    lower = text.lower()
    for hint in _HINTS:  # noqa: SIM110 - half the time of any() with a generator, for every text of every line
        if hint in lower:
            return True
    return False


def redact(value: Any, depth: int = 0) -> Any:
    """The value with secret texts masked at every depth, and secret-named entries masked whole."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    if depth >= _DEEPEST:
        return "[too deep]"
    if isinstance(value, Mapping):
        return {
            redact_text(str(name)): MASK if is_secret_name(name) else redact(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact(item, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    try:
        return redact_text(str(value))
    except Exception:  # noqa: BLE001 - what cannot be shown must not cost the line
        return f"[{type(value).__name__}]"


@functools.lru_cache(maxsize=1024)
def is_secret_name(name: Hashable) -> bool:
    """Whether a field of this name is masked whatever it holds."""
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def filter_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The structlog processor: the last one before the line is rendered."""
    for name, value in event.items():
        if is_secret_name(name):
            event[name] = MASK
        elif type(value) is str:
            if value not in _CLEAN:
                event[name] = redact_text(value)
        elif value is not None and type(value) is not int:
            event[name] = redact(value)
    return event
