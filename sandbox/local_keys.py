"""The secrets of a local stack: made once, kept in its state folder, readable by their owner only."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from runtime.identity.keys import environment_value, generate_job_keys

API_KEY_NAME: Final = "local"
_SECRET_BYTES: Final = 32
_FILE: Final = "keys.json"


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """What a real stack takes from `pulumi config set --secret`.

    Attributes:
        signing_key: base64 of the PEM that jobs are signed with.
        api_key: for the first caller.
    """

    signing_key: str = field(repr=False)
    api_key: str = field(repr=False)

    @property
    def api_key_hash(self) -> str:
        """SHA-256 of the key's secret part: all that the stack is told."""
        return hashlib.sha256(self.api_key.split("_", 2)[2].encode()).hexdigest()


def local_keys(state_dir: Path) -> LocalKeys:
    """The keys of a state folder, made at the first call. Blocks for as long as the disk does."""
    path = state_dir / _FILE
    if path.exists():
        saved = json.loads(path.read_text())
        return LocalKeys(signing_key=saved["signing_key"], api_key=saved["api_key"])
    keys = LocalKeys(
        signing_key=environment_value(generate_job_keys().private_pem),
        api_key=f"hf_{API_KEY_NAME}_{secrets.token_urlsafe(_SECRET_BYTES)}",
    )
    save_keys(state_dir, keys)
    return keys


def save_keys(state_dir: Path, keys: LocalKeys) -> None:
    """Puts keys in the place of those of a state folder. Blocks for as long as the disk does."""
    write_private(state_dir / _FILE, json.dumps(asdict(keys)))


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f"{path.name}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)
