"""Answers the real engine's calls from a saved world.

The SDK's own base class for providers is not used: it drops the old inputs of a diff and cannot send unknown values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import empty_pb2
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from runtime.contract.errors import HoldfastError
from sandbox.engine.wire import plain_inputs, wrapped_outputs
from sandbox.provider import provider
from sandbox.provider.behaviour import Surroundings
from sandbox.provider.faults import ProviderRefused
from sandbox.provider.fingerprint import fingerprint
from sandbox.world import Resource, World

Request = TypeVar("Request")
Response = TypeVar("Response")


def _answering(
    call: Callable[[StandIn, Request], Response],
) -> Callable[[StandIn, Request, grpc.ServicerContext], Response]:
    """A refusal reaches the engine as its text."""

    @wraps(call)
    def answer(self: StandIn, request: Request, context: grpc.ServicerContext) -> Response:
        try:
            return call(self, request)
        except (HoldfastError, ValueError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    return answer


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """One provider process; its server must call it from one thread only.

    Args:
        world_dir: folder of a saved world, which is read before and written after each change.
        version: what the engine is told; that of the SDK whose types it knows.
    """

    def __init__(self, world_dir: Path, version: str) -> None:
        self._world_dir = world_dir
        self._version = version
        self._config: dict[str, str] = {}

    def GetPluginInfo(self, _: empty_pb2.Empty, __: grpc.ServicerContext) -> plugin_pb2.PluginInfo:  # noqa: N802 - as below, the protocol's name
        """The version."""
        return plugin_pb2.PluginInfo(version=self._version)

    def Attach(self, _: plugin_pb2.PluginAttach, __: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        """Lets an engine in that did not start this process; it is asked nothing in return."""
        return empty_pb2.Empty()

    def CheckConfig(  # noqa: N802
        self, request: provider_pb2.CheckRequest, _: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Takes any configuration; the program has checked it."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, _: provider_pb2.DiffRequest, __: grpc.ServicerContext) -> provider_pb2.DiffResponse:  # noqa: N802
        """Another configuration does not replace anything by itself."""
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    @_answering
    def Configure(self, request: provider_pb2.ConfigureRequest) -> provider_pb2.ConfigureResponse:  # noqa: N802
        """Keeps the project and region that inputs default to."""
        values, _ = plain_inputs(request.args)
        self._config = {name: str(values[name]) for name in ("project", "region") if name in values}
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    @_answering
    def Check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:  # noqa: N802
        """Refuses what the platform would refuse. Its defaults are no inputs, and policies do not see them as such."""
        inputs, secrets = plain_inputs(request.news)
        given = provider.given(request.type, inputs, logical=request.name, config=self._config)
        _, failures = provider.check(request.type, given)
        return provider_pb2.CheckResponse(
            inputs=wrapped_outputs(given, secrets),
            failures=[provider_pb2.CheckFailure(property=one.path, reason=one.reason) for one in failures],
        )

    @_answering
    def Diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:  # noqa: N802
        """Compares with the inputs in the engine's state, which a refresh brings up to date."""
        world = self._world()
        declared = self._declared(request, request.news, world)
        old, secrets = self._filled(request, request.old_inputs)
        before = Resource(
            type=request.type,
            name=request.id,
            urn=request.urn,
            inputs=old,
            outputs={},
            secrets=secrets,
            fingerprint=fingerprint(old, secrets),
        )
        found = provider.diff(before, declared)
        # A name cannot be taken twice, so the old resource goes first where the new one has its name.
        taken = world.find(declared.type, declared.name) is not None
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if found.changes else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=found.changes,
            replaces=found.replaces,
            deleteBeforeReplace=bool(found.replaces) and taken,
        )

    @_answering
    def Create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:  # noqa: N802
        """Adds a resource; a preview says what is known of it."""
        world = self._world()
        declared = self._declared(request, request.properties, world)
        if request.preview:
            return provider_pb2.CreateResponse(
                properties=_properties(provider.planned(world, declared, None), declared.secrets)
            )
        left = world.find(declared.type, declared.name)
        if left is not None and left.urn == declared.urn:
            # An engine that was killed had it created and could not note so. In the cloud it would have to be imported.
            world.remove(left.type, left.name)
        resource = provider.create(world, declared)
        world.save()
        return provider_pb2.CreateResponse(
            id=str(resource.outputs["id"]), properties=_properties(resource.outputs, resource.secrets)
        )

    @_answering
    def Update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:  # noqa: N802
        """Changes a resource in place."""
        world = self._world()
        before = _by_id(world, request.type, request.id)
        if before is None:
            raise ProviderRefused(f"{request.type} {request.id} is gone from the world; refresh the stack first")
        declared = self._declared(request, request.news, world, before.name)
        if request.preview:
            outputs = provider.planned(world, declared, before)
        else:
            outputs = dict(provider.update(world, before, declared).outputs)
            world.save()
        return provider_pb2.UpdateResponse(properties=_properties(outputs, declared.secrets))

    @_answering
    def Read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:  # noqa: N802
        """What is there now, or an empty answer. Secrets, which a saved world lacks, stay as they were."""
        found = _by_id(self._world(), request.type, request.id)
        if found is None:
            return provider_pb2.ReadResponse()
        known, _ = plain_inputs(request.inputs)
        kept = {name: known[name] for name in found.secrets if name in known}
        return provider_pb2.ReadResponse(
            id=request.id,
            properties=_properties({**found.outputs, **kept}, found.secrets),
            inputs=wrapped_outputs({**found.inputs, **kept}, found.secrets),
        )

    @_answering
    def Delete(self, request: provider_pb2.DeleteRequest) -> empty_pb2.Empty:  # noqa: N802
        """Removes a resource, unless the platform refuses; one that is gone already stays so."""
        world = self._world()
        found = _by_id(world, request.type, request.id)
        if found is not None:
            if refusal := provider.delete_refusal(world, found):
                raise ProviderRefused(refusal)
            if not provider.stays(found):
                world.remove(found.type, found.name)
                provider.retire(world, found)
                world.save()
        return empty_pb2.Empty()

    @_answering
    def Invoke(self, request: provider_pb2.InvokeRequest) -> provider_pb2.InvokeResponse:  # noqa: N802
        """Answers a function of the provider."""
        arguments, _ = plain_inputs(request.args)
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").update(provider.invoke(self._world(), request.tok, arguments))
        return response

    def Cancel(self, _: empty_pb2.Empty, __: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        """Nothing to do: no call takes long."""
        return empty_pb2.Empty()

    def _world(self) -> World:
        world = World.load(self._world_dir)
        if world is None:
            raise ProviderRefused(f"there is no world in {self._world_dir}; start the engine through Holdfast")
        return world

    def _declared(self, request: Any, struct: Struct, world: World, name: str = "") -> provider.Declared:
        """A checked declaration; without a name it gets the one that a new resource would have."""
        inputs, secrets = self._filled(request, struct)
        around = Surroundings(request.name, before=_empty(world), now=world)
        return provider.Declared(
            type=request.type,
            name=name or provider.identify(request.type, inputs, around),
            urn=request.urn,
            inputs=inputs,
            secrets=secrets,
        )

    def _filled(self, request: Any, struct: Struct) -> tuple[dict[str, Any], frozenset[str]]:
        """Checked inputs with the platform's defaults, and the names of the secret ones."""
        inputs, secrets = plain_inputs(struct)
        filled, _ = provider.check(request.type, inputs)
        return filled, secrets


def _by_id(world: World, type_: str, id_: str) -> Resource | None:
    return next((resource for resource in world.of_type(type_) if resource.outputs.get("id") == id_), None)


def _empty(world: World) -> World:
    return World(world.project, world.number, world.region, world.state_dir)


def _properties(outputs: Any, secrets: frozenset[str]) -> Struct:
    """Outputs without the id, which travels beside them."""
    return wrapped_outputs({name: value for name, value in outputs.items() if name != "id"}, secrets)
