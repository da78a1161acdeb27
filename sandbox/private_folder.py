"""A short-lived folder for unix sockets, whose paths may not be long."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

SOCKET_PATH_BYTES: Final = 100
"""Longest path of a unix socket that every system takes: Linux allows 107 bytes, macOS 103; some are kept free."""
_SHORT: Final = "/tmp"  # noqa: S108 - only the parent of a folder that mkdtemp makes, private to its owner


def private_folder(prefix: str, longest_name: str) -> Path:
    """Makes a folder that only its owner may enter.

    Args:
        prefix: begin of its name.
        longest_name: the longest path, relative to it, that a socket will have.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if len(os.fsencode(folder / longest_name)) <= SOCKET_PATH_BYTES:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_SHORT))
