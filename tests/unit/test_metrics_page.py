"""The page of metrics and log lines names each one that there is, and none that there is not."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path
from typing import Final

from prometheus_client import Counter

from runtime.contract import names
from runtime.contract.outcomes import OUTCOMES, Verdict
from runtime.observability.metrics import Metrics
from sandbox.pubsub.backoff import RetryPolicy

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/operations/metrics.md").read_text()
WORKER: Final = ("runtime/worker", "runtime/adapters", "runtime/identity", "runtime/http/server", "runtime/server.py")
"""Whose log lines the page lists: a worker's."""


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_metric_is_explained_with_its_labels_and_none_is_invented() -> None:
    registered = {
        f"{metric._name}_total" if isinstance(metric, Counter) else metric._name: list(metric._labelnames)
        for metric in vars(Metrics()).values()
        if hasattr(metric, "_labelnames")
    }
    told = {row[0].strip("`"): re.findall(r"`(\w+)`", row[1]) for row in rows("Metrics")}
    assert told == registered


def sources() -> list[Path]:
    places = [ROOT / place for place in WORKER]
    return [path for place in places for path in ([place] if place.is_file() else place.rglob("*.py"))]


def logged() -> dict[str, set[str]]:
    """Event -> methods that it is logged with, in a worker."""
    found: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args:
                for event in events(node.args[0]) if methods(node.func) else ():
                    found.setdefault(event, set()).update(methods(node.func))
    return found


def methods(called: ast.expr) -> set[str]:
    """The log's methods that a call may be; `write` is chosen by whether a delivery is acknowledged."""
    if isinstance(called, ast.Name) and called.id == "write":
        return {"info", "warning"}
    return {called.attr} if isinstance(called, ast.Attribute) and ast.unparse(called.value) == "log" else set()


def events(expression: ast.expr) -> list[str]:
    """The texts that an event's name may be."""
    if isinstance(expression, ast.IfExp):
        return [*events(expression.body), *events(expression.orelse)]
    if isinstance(expression, ast.Name):
        return [str(getattr(names, expression.id))]
    assert isinstance(expression, ast.Constant), ast.unparse(expression)
    return [str(expression.value)]


def test_every_warning_and_error_of_a_worker_is_explained_and_none_is_invented() -> None:
    known = logged()
    told = {row[0].strip("`"): row[1] for row in rows("Log lines")}
    loud = {event for event, methods in known.items() if methods & {"warning", "error", "exception"}}
    assert loud - set(told) == set(), "explain these"
    assert set(told) - set(known) == set(), "nothing writes these"
    for event, severity in told.items():
        expected = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
        assert set(severity.split(" or ")) <= {expected[method] for method in known[event]}, event


def test_every_excused_or_refused_outcome_is_listed_with_its_status() -> None:
    for outcome in OUTCOMES.values():
        if outcome.excused or outcome.verdict in {Verdict.ACK, Verdict.REFUSED}:
            [line] = [line for line in section("Reason codes").splitlines() if f"`{outcome.code}`" in line]
            assert str(outcome.status) in line.split("|")[1], outcome.code
            assert ("excused" in line.split("|")[1]) == outcome.excused, outcome.code


def test_the_pauses_that_the_page_promises_are_those_of_the_local_stack() -> None:
    table = [line for line in section("Pauses between deliveries").splitlines() if re.match(r"\| \d", line)]
    assert len(table) == 3
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        least, most = (timedelta(seconds=int(found)) for found in re.findall(r"(\d+) s", cells[0]))
        policy = RetryPolicy(minimum=least, maximum=most)
        assert [policy.delay(failures) for failures in range(1, 8)] == [float(cell) for cell in cells[1:]]
        assert policy.delay(100) == float(cells[-1]), "and later"
