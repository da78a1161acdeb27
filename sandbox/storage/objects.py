"""Objects of declared buckets, as files."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

from runtime.contract.errors import HoldfastError

FOLDER: Final = "storage"
"""Folder of all buckets, inside the world's."""


class UnwritableObject(HoldfastError):
    """An object whose name cannot be the path of a file, or whose file cannot be written."""

    code = "unwritable_object"


class ObjectFiles:
    """`storage/BUCKET/NAME` for each object. Blocking; for a thread.

    Args:
        state_dir: the world's folder; what is written is for its owner only.
    """

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / FOLDER

    def path(self, bucket: str, name: str) -> Path:
        """Where an object is, or would be.

        Raises:
            UnwritableObject: the name is fine for Cloud Storage, and not for a file.
        """
        parts = [bucket, *name.split("/")]
        if any(part in {"", ".", ".."} or "\0" in part for part in parts):
            raise UnwritableObject(f"object {name!r} of bucket {bucket} cannot be a file here; use another name")
        return self._folder.joinpath(*parts)

    def create(self, bucket: str, name: str, body: bytes) -> Path:
        """Writes an object whole; it is on disk when this returns.

        Raises:
            UnwritableObject
        """
        path = self.path(bucket, name)
        partial = self._folder / f".partial-{secrets.token_hex(8)}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write(body)
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise UnwritableObject(f"{path} cannot be written: {error}; free disk space, or rights") from error
        return path
