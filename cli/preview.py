"""`holdfast preview`: a stack's first deployment, tried with the real engine and no account."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.failure import CommandFailed, ExitCode
from runtime.contract.errors import HoldfastError
from runtime.identity.keys import environment_value, generate_job_keys
from sandbox.engine.deployment import DeploymentFailed
from sandbox.engine.pulumi_cli import Plan, PulumiEngine, policy_packs
from sandbox.engine.pulumi_home import PulumiHome
from sandbox.stack_file import read_stack_file

_SIGNING_KEY: Final = "holdfast:signing_key"


def preview_stack(out: Console, stack: str, project_dir: Path = Path()) -> ExitCode:
    """Previews a stack against an empty project, with the stand-in provider; nothing is kept.

    The stack's encrypted values stay closed: a key made for the preview stands in for the signing key.

    Raises:
        CommandFailed: there is no such stack file, another value is encrypted, or there is no `pulumi` command.
    """
    config, secrets = _values(project_dir, stack)
    packs = policy_packs(project_dir.resolve())
    with tempfile.TemporaryDirectory(prefix="holdfast-preview-") as folder:
        engine = PulumiEngine(
            home=PulumiHome(Path(folder).resolve()), stack=stack, config=config, secrets=secrets, policy_packs=packs
        )
        try:
            with out.status(f"Previewing {stack}"):
                plan = engine.preview()
        except DeploymentFailed as failed:
            out.print(f"[red]{stack} cannot be deployed:[/red]")
            for line in failed.lines:
                out.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
            return ExitCode.STACK_REFUSED
        except HoldfastError as error:
            raise CommandFailed(error.line(), ExitCode.NOT_STARTED) from error
    _show(out, stack, plan, with_policies=bool(packs))
    return ExitCode.OK


def _values(project_dir: Path, stack: str) -> tuple[dict[str, str], dict[str, str]]:
    path = project_dir / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.name.split(".")[1] for file in project_dir.glob("Pulumi.*.yaml")))
        raise CommandFailed(f"{path}: no such file; there are stacks {known or 'none'}", ExitCode.USAGE)
    try:
        values = read_stack_file(path)
    except HoldfastError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    values.pop(_SIGNING_KEY, None)
    closed = [key for key, value in values.items() if _is_encrypted(value)]
    if closed:
        raise CommandFailed(
            f"{path}: {', '.join(closed)} cannot be read offline, it is encrypted; only {_SIGNING_KEY} may be",
            ExitCode.USAGE,
        )
    return values, {_SIGNING_KEY: environment_value(generate_job_keys().private_pem)}


def _is_encrypted(value: str) -> bool:
    try:
        body = json.loads(value)
    except ValueError:
        return False
    return isinstance(body, dict) and body.keys() == {"secure"}


def _show(out: Console, stack: str, plan: Plan, *, with_policies: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "TYPE", "NAME"):
        table.add_column(heading, overflow="fold")
    for step in plan.steps:
        type_, name = step.urn.split("::")[2:4]
        table.add_row(step.operation, type_.rpartition("$")[2], name)
    out.print(table)
    for warning in plan.warnings:
        out.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False, soft_wrap=True)
    for violation in plan.violations:
        out.print(f"[yellow]advice:[/yellow] {escape(str(violation))}", highlight=False, soft_wrap=True)
    counts = Counter(step.operation for step in plan.steps)
    changes = ", ".join(f"{count} to {operation}" for operation, count in sorted(counts.items()))
    verdict = "policies passed" if with_policies else "no policies/run, so no policy was checked"
    out.print(f"\n[bold]{stack}[/bold] in an empty project: {changes or 'nothing to do'}; {verdict}")
