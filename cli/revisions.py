"""`holdfast check`: whether each service of a deployed stack runs what was deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cli.failure import CommandFailed, ExitCode

_SERVICE: Final = "gcp:cloudrunv2/service:Service"
_SHAPE: Final = "not the state of a stack; give what `pulumi stack export` prints"


def unready(text: str) -> list[str]:
    """A line for each service whose newest revision has not become ready; none where all have.

    A revision that does not start leaves the one before it in service, so that callers notice nothing.

    Args:
        text: what `pulumi stack export` prints, after a refresh where someone else may have deployed.

    Raises:
        CommandFailed: it is no such text, or has no service in it.
    """
    services = [row for row in _resources(text) if row.get("type") == _SERVICE]
    if not services:
        raise CommandFailed("the stack has no service; was it deployed?", ExitCode.USAGE)
    return [line for row in services for line in _faults(row)]


def _faults(row: Mapping[str, Any]) -> Iterator[str]:
    outputs = row.get("outputs") or {}
    name = outputs.get("name") or row.get("urn")
    created, ready = (_short(outputs.get(key)) for key in ("latestCreatedRevision", "latestReadyRevision"))
    if not created:
        yield f"{name}: the state does not say its newest revision; run `pulumi refresh` and check again"
    elif created != ready:
        yield (
            f"{name}: its newest revision {created} has not become ready, so {ready or 'none'} takes the requests; "
            f"its log says why: gcloud logging read 'resource.labels.revision_name=\"{created}\"' --limit 50"
        )


def _short(revision: object) -> str:
    """Google's full name or the short one, as the short one; empty where there is none."""
    return revision.rpartition("/")[2] if isinstance(revision, str) else ""


def _resources(text: str) -> list[Mapping[str, Any]]:
    try:
        state = json.loads(text)
    except ValueError as error:
        raise CommandFailed(_SHAPE, ExitCode.USAGE) from error
    deployment = state.get("deployment") if isinstance(state, dict) else None
    resources = deployment.get("resources") if isinstance(deployment, dict) else None
    if not isinstance(resources, list):
        raise CommandFailed(_SHAPE, ExitCode.USAGE)
    return resources
