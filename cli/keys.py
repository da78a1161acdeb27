"""`holdfast keys`: API keys and signing keys for a stack's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.failure import CommandFailed, ExitCode
from cli.key_rotation import make_signing_key
from runtime.api.api_key import KEY_NAME, KEY_NAME_RULE, make_key
from runtime.contract.settings.verifying_keys import DEFAULT_KEY_ID

app = typer.Typer(no_args_is_help=True, help="Make keys.")
out = Console()


@app.callback()
def keys() -> None:
    """Make keys."""


@app.command()
def new(name: Annotated[str, typer.Argument(help="Whose key it is.")]) -> None:
    """Make an API key: it is shown this once, and the stack is told its hash alone."""
    if not KEY_NAME.fullmatch(name):
        raise CommandFailed(f"{name!r} is not a name for a key: {KEY_NAME_RULE}", ExitCode.USAGE)
    key, digest = make_key(name)
    out.print(f"key   {key}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"hash  {digest}", markup=False, highlight=False, soft_wrap=True)
    out.print(
        f"\nKeep the key; it cannot be shown again. To let it in:\n"
        f"  pulumi config set --path 'holdfast:api.key_hashes.{name}' {digest}",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip


@app.command()
def rotate(
    new_id: Annotated[str, typer.Argument(help="Id of the new key.")],
    current_id: Annotated[str, typer.Option(help="Id of the key that it replaces.")] = DEFAULT_KEY_ID,
) -> None:
    """Make a signing key, NEW_ID.pem, and show how it takes the place of the current one without losing a job."""
    out.print(make_signing_key(new_id, current_id, Path()), markup=False, highlight=False, soft_wrap=True)
