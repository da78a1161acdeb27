"""How runs and events look on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

STYLES: Mapping[str, str] = {
    "succeeded": "green", "failed": "red", "expired": "red", "dead_lettered": "red", "cancelled": "yellow",
    "running": "cyan", "dispatching": "blue", "queued": "blue",
}  # fmt: skip


def state(value: str) -> Text:
    """A run state in its colour."""
    return Text(value, style=STYLES.get(value, ""))


def runs(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Runs, one a line."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("RUN", "STATE", "ENGINE", "ATTEMPT", "CREATED", "ENDED WITH"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            row["run_id"], state(row["state"]), row["engine"], str(row["attempt"]), str(row["created_at"]),
            row.get("failure_class") or row.get("error") or "",
        )  # fmt: skip
    return table


def dead_letter(row: Mapping[str, Any]) -> Text:
    """One dead letter on one line, however long: its id is whole, because the other commands ask for it."""
    replayed = row["replayed_generation"]
    line = Text(f"{row['id']}  ")
    line.append(f"{row['run_id'] or '-'}  ", style="bold")
    line.append(f"{row['failure_class']}  ", style="red")
    line.append(f"{row['last_failure_class'] or row['reason']}  {row['failed_at']}")
    if replayed is not None:
        line.append(f"  replayed as generation {replayed}", style="green")
    elif row["spurious"]:
        line.append("  spurious", style="dim")
    return line


def run(record: Mapping[str, Any]) -> Table:
    """One run, a field a line; fields without a value are left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in record.items():
        if value is None or value in ([], {}):
            continue
        shown: Text | str = state(str(value)) if name == "state" else _plain(value)
        table.add_row(name, shown)
    return table


def event(item: Mapping[str, Any]) -> Text:
    """One event on one line; those of a stream have no number."""
    line = Text(f"{item['sequence']:>4} " if "sequence" in item else "", style="dim")
    line.append(f"{item['event_type']:<12} ", style="bold")
    line.append(_plain(item["payload"]))
    return line


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
