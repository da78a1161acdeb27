"""`holdfast dead-letters`: what the queues gave up, and its replay."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from cli import tables
from cli.avro import read_records
from cli.client import Client
from cli.endpoint import find_endpoint
from cli.failure import CommandFailed, ExitCode
from runtime.contract.errors import HoldfastError
from runtime.contract.settings.words import Workload
from runtime.contract.states import FailureClass

PAGE = 200
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MESSAGE_ID: Final = re.compile(r"[0-9]{1,40}", re.ASCII)

app = typer.Typer(no_args_is_help=True, help="Look at what the queues gave up, and replay it.")
out = Console()

Source = Annotated[Workload | None, typer.Option("--source", help="Only letters of this workload.")]
Class = Annotated[FailureClass | None, typer.Option("--failure-class", help="Only letters of this class.")]


@app.command("list")
def list_letters(
    source: Source = None,
    failure_class: Class = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE)] = 20,
) -> None:
    """The newest letters."""

    async def call() -> list[dict[str, Any]]:
        async with Client(find_endpoint()) as client:
            return (await client.dead_letters(_filters(source, failure_class), limit))[0]

    for letter in asyncio.run(call()):
        out.print(tables.dead_letter(letter), soft_wrap=True)


@app.command()
def show(
    letter_id: str,
    payload: Annotated[Path | None, typer.Option(help="Also write the message's bytes to this file.")] = None,
) -> None:
    """One letter."""

    async def call() -> dict[str, Any]:
        async with Client(find_endpoint()) as client:
            return await client.dead_letter(letter_id, payload=payload is not None)

    letter = asyncio.run(call())
    kept = letter.pop("payload", None)
    out.print(tables.run(letter))
    if payload is not None:
        _write(payload, kept)


@app.command()
def read(
    files: list[Path],
    payload: Annotated[Path | None, typer.Option(help="Also write each message's bytes into this folder.")] = None,
) -> None:
    """The messages in files of the dead-letter bucket, a line of JSON for each; needs no API."""
    for file in files:
        try:
            for message in read_records(file.read_bytes()):
                data = message.pop("data", b"")
                if isinstance(published := message.get("publish_time"), int):
                    message["publish_time"] = (_EPOCH + timedelta(microseconds=published)).isoformat()
                out.print(json.dumps({**message, "bytes": len(data)}), markup=False, highlight=False, soft_wrap=True)
                if payload is not None:
                    _keep(payload, str(message.get("message_id", "")), data)
        except (OSError, OverflowError, HoldfastError) as error:
            raise CommandFailed(f"{file}: {error}", ExitCode.USAGE) from error


@app.command()
def replay(
    letter_id: Annotated[str | None, typer.Argument(help="One letter; else name a filter.")] = None,
    source: Source = None,
    failure_class: Class = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Queue the run of one letter again, or of every letter of a filter."""
    filters = _filters(source, failure_class)
    if (letter_id is None) is not bool(filters):
        raise CommandFailed("name one letter, or --source or --failure-class, and not both", ExitCode.USAGE)
    raise typer.Exit(asyncio.run(_replay(letter_id, filters, yes=yes)))


async def _replay(letter_id: str | None, filters: dict[str, str], *, yes: bool) -> ExitCode:
    async with Client(find_endpoint()) as client:
        if letter_id is not None:
            out.print(tables.run(await client.replay(letter_id)))
            return ExitCode.OK
        found = await _waiting(client, filters)
        out.print(f"{len(found)} letters name a run and were not replayed yet.")
        runs = len({letter["run_id"] for letter in found})
        if not found or not (yes or typer.confirm(f"Replay {runs} runs?")):
            return ExitCode.OK
        refused = 0
        replayed: set[str] = set()
        for letter in found:
            if letter["run_id"] in replayed:
                continue  # a run that was published twice may leave two letters of one generation
            try:
                record = await client.replay(letter["id"])
            except CommandFailed as failure:
                if failure.exit_code is not ExitCode.REFUSED:
                    raise
                refused += 1
                out.print(f"{letter['run_id']}: {failure}", markup=False, highlight=False, soft_wrap=True)
            else:
                replayed.add(letter["run_id"])
                out.print(f"{record['run_id']}: generation {record['generation']}", markup=False, highlight=False)
    return ExitCode.REFUSED if refused else ExitCode.OK


async def _waiting(client: Client, filters: dict[str, str]) -> list[dict[str, Any]]:
    """Every letter of a filter that a replay may help; a spurious one lost nothing."""
    found: list[dict[str, Any]] = []
    before: str | None = None
    while True:
        letters, before = await client.dead_letters(filters, PAGE, before)
        found += [
            letter
            for letter in letters
            if letter["run_id"] is not None and letter["replayed_generation"] is None and not letter["spurious"]
        ]
        if before is None:
            return found


def _filters(source: Workload | None, failure_class: FailureClass | None) -> dict[str, str]:
    given = {"source": source, "failure_class": failure_class}
    return {name: word.value for name, word in given.items() if word is not None}


def _keep(folder: Path, message_id: str, data: bytes) -> None:
    """A message holds the token of its job, so its file is for its owner only."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise CommandFailed("it has a message without an id, which no file can be named after", ExitCode.USAGE)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_for_owner(folder / message_id, data)


def _write_for_owner(path: Path, data: bytes) -> None:
    """Whatever its mode was: a file that was there keeps it otherwise."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.truncate()
        stream.write(data)


def _write(path: Path, payload: dict[str, Any] | None) -> None:
    if payload is None:
        raise CommandFailed("the message's bytes were not kept; see docs/operations.md", ExitCode.REFUSED)
    try:
        data = base64.b64decode(payload["base64"], validate=True)
        _write_for_owner(path, data)
    except (OSError, binascii.Error, KeyError) as error:
        raise CommandFailed(f"{path}: {error}", ExitCode.USAGE) from error
    what = "the message's bytes" if payload["encoding"] == "decoded" else "the message's data as it came: no base64"
    out.print(f"{path}: {len(data)} bytes, {what}", markup=False, highlight=False, soft_wrap=True)
