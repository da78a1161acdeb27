"""The real engine's state, read for what a provider is not told: dependencies, protection, secrets of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from google.protobuf import json_format, struct_pb2

from sandbox.engine.registration import ROOT_TYPE, Registration
from sandbox.engine.wire import SECRET, SIGNATURE, plain_inputs
from sandbox.world import World

_PROVIDERS: Final = "pulumi:providers:"


@dataclass(frozen=True, slots=True)
class EngineState:
    """An exported state, secrets in plain text.

    Attributes:
        resources: as the engine writes them, in the order of creation.
        outputs: what the program exports.
        secret_outputs: names of the outputs that are secret.
    """

    resources: Sequence[Mapping[str, Any]] = field(repr=False)
    outputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secret_outputs: frozenset[str] = frozenset()

    @classmethod
    def read(cls, deployment: Mapping[str, Any] | None) -> EngineState:
        """The resources of an export, without the stack and its providers, and the stack's outputs."""
        rows = (deployment or {}).get("resources") or []
        stack: Mapping[str, Any] = next((row for row in rows if row["type"] == ROOT_TYPE), {})
        return cls(
            [row for row in rows if row["type"] != ROOT_TYPE and not row["type"].startswith(_PROVIDERS)],
            *_plain(stack.get("outputs")),
        )

    def registrations(self) -> tuple[Registration, ...]:
        """What the program registered; values that it told the engine to ignore are not in the state."""
        found = []
        for row in self.resources:
            inputs, secrets = _plain(row.get("inputs"))
            sources = row.get("propertyDependencies") or {}
            found.append(
                Registration(
                    type=row["type"],
                    name=row["urn"].rpartition("::")[2],
                    urn=row["urn"],
                    parent=row.get("parent", ""),
                    custom=row.get("custom", False),
                    inputs=inputs,
                    secrets=secrets,
                    dependencies=_dependencies(row),
                    property_dependencies={name: tuple(sorted(urns)) for name, urns in sources.items() if urns},
                    protect=row.get("protect", False),
                )
            )
        return tuple(found)

    def complete(self, world: World) -> None:
        """Adds to the resources of a loaded world what only the engine knows."""
        rows = {(row["type"], row.get("id")): row for row in self.resources if row.get("custom")}
        for resource in world:
            row = rows.get((resource.type, resource.outputs.get("id")))
            if row is None:
                continue
            inputs, _ = _plain(row.get("inputs"))
            kept = {name: inputs[name] for name in resource.secrets if name in inputs}
            world.put(
                replace(
                    resource,
                    inputs={**resource.inputs, **kept},
                    outputs={**resource.outputs, **kept},
                    dependencies=_dependencies(row),
                    protect=row.get("protect", False),
                )
            )


def _dependencies(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(row.get("dependencies") or ()))


def _plain(values: Mapping[str, Any] | None) -> tuple[dict[str, Any], frozenset[str]]:
    return plain_inputs(json_format.ParseDict(_revealed(values or {}), struct_pb2.Struct()))


def _revealed(value: Any) -> Any:
    """Secrets with their value where an export has it as JSON text."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == SECRET and "plaintext" in value:
            return {SIGNATURE: SECRET, "value": json.loads(value["plaintext"])}
        return {name: _revealed(member) for name, member in value.items()}
    return [_revealed(member) for member in value] if isinstance(value, list) else value
