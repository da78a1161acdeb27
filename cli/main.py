"""The `holdfast` command."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from cli import dead_letters, keys, tables
from cli.client import Client
from cli.endpoint import find_endpoint
from cli.failure import CommandFailed, ExitCode
from cli.revisions import unready
from runtime.contract.states import RunMode, RunState

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Reliable job execution, here and on Google Cloud.")
runs_app = typer.Typer(no_args_is_help=True, help="Look at runs.")
app.add_typer(runs_app, name="runs")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(keys.app, name="keys")
out = Console()
err = Console(stderr=True)


@app.command()
def up(
    once: Annotated[bool, typer.Option("--once", help="Stop after the first run; fail where it does.")] = False,
    port: Annotated[int, typer.Option(help="Port of the API; 0 takes a free one.", min=0, max=65535)] = 0,
    engine: Annotated[
        Literal["embedded", "pulumi"], typer.Option(help="What runs the program: this process, or the pulumi command.")
    ] = "embedded",
) -> None:
    """Run the whole local stack, and a first job through it."""
    from cli.up import bring_up  # the sandbox and Pulumi load only where they are used
    from sandbox.engine.deployment import Engine

    raise typer.Exit(asyncio.run(bring_up(out, once=once, port=port, engine=Engine(engine))))


@app.command()
def preview(
    stack: Annotated[str, typer.Argument(help="Name of a stack file, Pulumi.STACK.yaml.")] = "dev",
) -> None:
    """Show what a first deployment of a stack would create, and what the policies say; needs no account."""
    from cli.preview import preview_stack

    raise typer.Exit(preview_stack(out, stack))


@app.command()
def check(
    state: Annotated[typer.FileText, typer.Argument(help="What `pulumi stack export` prints; - reads it.")] = "-",  # type: ignore[assignment]  # typer opens it
) -> None:
    """Tell which services of a deployed stack do not run their newest revision."""
    lines = unready(state.read())
    for line in lines:
        err.print(line, markup=False, highlight=False, soft_wrap=True)
    if lines:
        raise typer.Exit(ExitCode.SERVICE_NOT_READY)
    out.print("every service runs its newest revision")


@app.command()
def run(
    job: Annotated[str, typer.Argument(help="A flow's JSON file, or the name of an engine.")],
    input_: Annotated[str, typer.Option("--input", help="The run's input, as JSON.")] = "null",
    follow: Annotated[bool, typer.Option("--follow", help="Show events until the run ends.")] = False,
    timeout: Annotated[int | None, typer.Option(help="Seconds that one attempt may take.", min=1)] = None,
    mode: Annotated[
        RunMode, typer.Option(help="Queue the job; or wait for its result, or for its events, through the executor.")
    ] = RunMode.ASYNC,
) -> None:
    """Submit a job."""
    if follow and mode is not RunMode.ASYNC:
        raise CommandFailed(f"--follow goes with --mode async; --mode {mode} waits anyway", ExitCode.USAGE)
    body: dict[str, Any] = {**_job(job), "input": _json(input_, "--input"), "mode": mode.value}
    if timeout is not None:
        body["timeout_seconds"] = timeout
    raise typer.Exit(asyncio.run(_run(body, follow=follow)))


@runs_app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
) -> None:
    """The newest runs."""

    async def call() -> list[dict[str, Any]]:
        async with Client(find_endpoint()) as client:
            return await client.runs(limit, state)

    out.print(tables.runs(asyncio.run(call())))


@runs_app.command()
def show(
    run_id: str,
    events: Annotated[bool, typer.Option("--events", help="Also the run's events.")] = False,
) -> None:
    """One run."""

    async def call() -> None:
        async with Client(find_endpoint()) as client:
            out.print(tables.run(await client.run(run_id)))
            if events:
                async for item in client.events(run_id):
                    out.print(tables.event(item))

    asyncio.run(call())


async def _run(body: dict[str, Any], *, follow: bool) -> ExitCode:
    async with Client(find_endpoint()) as client:
        if body["mode"] == RunMode.STREAM:
            run_id = await _streamed(client, body)
            record = await client.run(run_id)
        else:
            record = await client.submit(body)
            if body["mode"] == RunMode.ASYNC and not follow:
                out.print(tables.run(record))
                return ExitCode.OK
            if follow:
                async for item in client.events(record["run_id"]):
                    out.print(tables.event(item))
                record = await client.run(record["run_id"])
        out.print(tables.run(record))
    return ExitCode.OK if record["state"] == RunState.SUCCEEDED else ExitCode.RUN_NOT_SUCCEEDED


async def _streamed(client: Client, body: dict[str, Any]) -> str:
    """Shows a run's events as they come; the run's id."""
    run_id = ""
    async for item in client.stream(body):
        run_id = item["payload"].get("run_id", run_id) if item["event_type"] == "run_initiated" else run_id
        if item["event_type"] not in {"run_initiated", "completed"}:
            out.print(tables.event(item))
    return run_id


def _job(job: str) -> dict[str, Any]:
    path = Path(job)
    if not job.endswith(".json"):
        return {"engine": job}
    if not path.is_file():
        raise CommandFailed(f"{job}: no such file", ExitCode.USAGE)
    return {"engine": "flow", "flow": _json(path.read_text(), job)}


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"{where}: not JSON: {error}", ExitCode.USAGE) from error


def main() -> None:
    """Runs the command line; every failure on purpose is one line and an exit code."""
    try:
        app()
    except CommandFailed as failure:
        err.print(f"[red]holdfast:[/red] {failure}", highlight=False, soft_wrap=True)
        sys.exit(failure.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
