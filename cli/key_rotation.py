"""What replaces a stack's signing key: the new key in a file, and the commands of the deployments that change over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cli.failure import CommandFailed, ExitCode
from runtime.contract.settings import rules

_STEPS: Final = """\
# 1. Every service accepts the new key, while the current one still signs.
pulumi config set holdfast:previous_signing_public_key "$(openssl pkey -in {new}.pem -pubout | base64 -w0)"
pulumi config set holdfast:previous_signing_key_id {new}
pulumi up

# 2. The new key signs, and what the old one has signed is still accepted.
pulumi config set holdfast:previous_signing_public_key "$(pulumi stack output signing_public_key)"
pulumi config set holdfast:previous_signing_key_id {current}
base64 -w0 < {new}.pem | pulumi config set --secret holdfast:signing_key
pulumi config set holdfast:signing_key_id {new}
pulumi up
rm {new}.pem

# 3. When the last job of the old key is over: the message's retention, the request timeout and five minutes later,
#    a day and 15 minutes where the stack says nothing else.
pulumi config rm holdfast:previous_signing_public_key
pulumi config rm holdfast:previous_signing_key_id
pulumi up"""


def make_signing_key(new: str, current: str, folder: Path) -> str:
    """Writes a new key to `NEW.pem`, readable by its owner only.

    Args:
        new: its id.
        current: id of the key that it replaces.
        folder: where the file goes; one of that name is left alone.

    Returns:
        the commands, in order.

    Raises:
        CommandFailed: no such ids, or no such file.
    """
    for kid in (new, current):
        if not rules.is_key_id(kid):
            raise CommandFailed(f"{kid!r} is not the id of a key: it {rules.KEY_ID_RULE}", ExitCode.USAGE)
    if new == current:
        raise CommandFailed(
            f"{new} is the id of the current key; a token says by the id which key it is checked with: choose another",
            ExitCode.USAGE,
        )
    from runtime.identity.keys import generate_job_keys  # cryptography loads where it is used

    path = folder / f"{new}.pem"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(generate_job_keys().private_pem)
    except OSError as error:
        raise CommandFailed(f"the new key cannot be written to {path}: {error.strerror}", ExitCode.USAGE) from None
    return _STEPS.format(new=new, current=current)
