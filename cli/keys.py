"""`holdfast keys`: API keys for a stack's settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from cli.failure import CommandFailed, ExitCode
from runtime.api.api_key import KEY_NAME, KEY_NAME_RULE, make_key

app = typer.Typer(no_args_is_help=True, help="Make API keys.")
out = Console()


@app.callback()
def keys() -> None:
    """Make API keys."""


@app.command()
def new(name: Annotated[str, typer.Argument(help="Whose key it is.")]) -> None:
    """Make a key: it is shown this once, and the stack is told its hash alone."""
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
