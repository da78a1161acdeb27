"""The few things that Linux lets a process decide about itself and its descendants. Elsewhere they do nothing."""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Final

_SET_DEATH_SIGNAL: Final = 1
_SET_NO_NEW_PRIVILEGES: Final = 38
_SET_CHILD_SUBREAPER: Final = 36
# Numbers from linux/prctl.h.

_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process, however they were started."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """This process is killed when the one that forked it ends."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def gain_no_privileges() -> None:
    """Programs that this process starts get no more rights than it has."""
    _prctl(_SET_NO_NEW_PRIVILEGES, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _LIBC.prctl(option, value, 0, 0, 0)
