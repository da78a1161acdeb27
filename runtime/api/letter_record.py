"""A dead letter as stored, and as callers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum

import msgspec

from runtime.api.run_view import timestamp
from runtime.contract.dead_letter import DeadLetter
from runtime.contract.errors import HoldfastError
from runtime.ports.documents import Value


class LetterUnreadable(HoldfastError):
    """A stored letter that this version cannot read."""

    code = "dead_letter_unreadable"


def read_letter(data: Mapping[str, Value]) -> DeadLetter:
    """The letter of a stored document; members of a later version are passed over.

    Raises:
        LetterUnreadable
    """
    try:
        return msgspec.convert(dict(data), DeadLetter)
    except msgspec.ValidationError as error:
        raise LetterUnreadable(f"the dead letter of run {data.get('run_id')!r} cannot be read: {error}") from error


def letter_view(letter_id: str, letter: DeadLetter) -> dict[str, object]:
    """The letter's members, times as text."""
    return {"id": letter_id, **{name: _shown(value) for name, value in asdict(letter).items()}}


def _shown(value: object) -> object:
    if isinstance(value, datetime):
        return timestamp(value)
    return value.value if isinstance(value, StrEnum) else value
