"""What the program declares for settings, in milliseconds: no engine, no provider, no event loop.

Resources are recorded as they are made, with their inputs as they stand. What a provider would compute has the value
that names give it, or none. Settings are taken as they are: what the contract refuses is rendered all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi._types import input_type_py_to_pulumi_names, input_type_to_dict, is_input_type

from infra.settings import StackSettings
from infra.stack import deploy
from policies.resource import ACCOUNT
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.worker import WorkerSettings
from tests.support.policy_programs import Declared, Program


class _Served(list[str]):
    """Addresses that the platform says, of which there are none yet."""

    def apply(self, use: Any) -> Any:
        return use(self)


def rendered_plainly(settings: StackSettings) -> Program:
    """Every resource that the program declares for these settings, without its links to others."""
    made: list[Declared] = []
    with _recording(made):
        deploy(settings)
    return Program(made)


@contextmanager
def _recording(made: list[Declared]) -> Iterator[None]:
    def declare(self: Any, type_: str, name: str, props: Any, *_: object, **__: object) -> None:
        given = {key: value for key, value in vars(props).items() if value is not None}
        vars(self).update(_computed(type_, name, given), **given)
        names = input_type_py_to_pulumi_names(type(props))
        made.append(Declared(type_, name, {names.get(key, key): _plain(value) for key, value in given.items()}))

    with ExitStack() as patched:
        for owner, name, stand_in in (
            (pulumi.CustomResource, "__init__", declare),
            (pulumi.ComponentResource, "__init__", _nothing),
            (pulumi.ComponentResource, "register_outputs", _nothing),
            (pulumi.ResourceOptions, "merge", _itself),
            (pulumi.Output, "secret", _itself),
            (pulumi.log, "warn", _nothing),
            *((role, "validated", _itself) for role in (WorkerSettings, ApiSettings, ExecutorSettings)),
        ):
            patched.enter_context(patch.object(owner, name, stand_in))
        yield


def _nothing(*_: object, **__: object) -> None:
    """In place of what only an engine can do."""


def _itself(value: Any, *_: object) -> Any:
    return value


def _computed(type_: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    project, own = given.get("project"), given.get("name", name)
    collection = type_.partition("/")[2].partition(":")[0]
    within = {"network": "global/", "subnetwork": f"regions/{given.get('region')}/"}.get(collection, "")
    outputs = {"id": f"projects/{project}/{within}{collection}s/{own}", "name": own, "version": "1", "urls": _Served()}
    if type_ == ACCOUNT:
        email = f"{given['account_id']}@{project}.iam.gserviceaccount.com"
        own = f"projects/{project}/serviceAccounts/{email}"
        outputs |= {"id": own, "name": own, "email": email, "member": f"serviceAccount:{email}"}
    return outputs


def _plain(value: Any) -> Any:
    if is_input_type(type(value)):
        value = input_type_to_dict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
