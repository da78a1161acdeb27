"""The engine's side of the SDK's protocol, in process: what the SDK's mock monitor lacks is added here."""

from __future__ import annotations

from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime import mocks
from pulumi.runtime.proto import engine_pb2, resource_pb2

from runtime.contract.errors import HoldfastError
from sandbox.engine.changes import Changes
from sandbox.engine.registration import ROOT_TYPE, Mutate, Registration, make_urn
from sandbox.engine.wire import plain_inputs, wrapped_outputs
from sandbox.provider import provider


class _NoMocks(mocks.Mocks):
    """The base class wants mocks; every call that would reach them is overridden."""

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise NotImplementedError(args.token)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        raise NotImplementedError(args.typ)


class EmbeddedMonitor(mocks.MockMonitor):
    """Answers the program's registrations from a world, one at a time: the SDK is given a single thread for its calls.

    Args:
        stack: name of the stack.
        project: name of the Pulumi project.
        changes: where registrations go.
        mutate: sees each registration first.
    """

    def __init__(self, stack: str, project: str, changes: Changes, mutate: Mutate) -> None:
        super().__init__(_NoMocks())
        self._stack = stack
        self._project = project
        self._changes = changes
        self._mutate = mutate
        self._root = ""
        self._urns: set[str] = set()
        self.registrations: list[Registration] = []
        self.faults: list[str] = []
        self.outputs: dict[str, Any] = {}
        self.secret_outputs: frozenset[str] = frozenset()

    def RegisterResource(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        """Takes a component or a resource of the platform."""
        urn = make_urn(self._stack, self._project, request.parent, request.type, request.name)
        if request.type == ROOT_TYPE:
            self._root = urn
            return resource_pb2.RegisterResourceResponse(urn=urn)
        try:
            return self._register(request, urn)
        except (HoldfastError, ValueError) as error:
            self.faults.append(f"{request.name} ({request.type}): {error}")
            raise

    def _register(
        self, request: resource_pb2.RegisterResourceRequest, urn: str
    ) -> resource_pb2.RegisterResourceResponse:
        if urn in self._urns:
            raise ValueError(f"is declared twice, both as {urn}; give one of them another name")
        if request.type.startswith("pulumi:providers:") or request.remote:
            raise ValueError("the embedded engine has the stack's own provider only, and no remote components")
        self._urns.add(urn)
        registration = _read(request, urn)
        if not registration.custom:
            self.registrations.append(registration)
            outputs = wrapped_outputs(registration.inputs, registration.secrets)
            return resource_pb2.RegisterResourceResponse(urn=urn, object=outputs)
        mutated = self._mutate(registration)
        if mutated is None:
            values = self._changes.pretend(registration)
        else:
            self.registrations.append(mutated)
            values = dict(self._changes.apply(mutated).outputs)
        outputs = wrapped_outputs(values, registration.secrets)
        return resource_pb2.RegisterResourceResponse(urn=urn, id=str(values["id"]), object=outputs)

    def RegisterResourceOutputs(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> empty_pb2.Empty:
        """Keeps the outputs of the stack; those of components have no reader."""
        if request.urn == self._root:
            self.outputs, self.secret_outputs = plain_inputs(request.outputs)
        return empty_pb2.Empty()

    def Invoke(  # noqa: N802 - the protocol's name
        self, request: resource_pb2.ResourceInvokeRequest
    ) -> resource_pb2.ResourceInvokeResponse:
        """Answers a function of the provider."""
        arguments, _ = plain_inputs(request.args)
        try:
            answer = provider.invoke(self._changes.now, request.tok, arguments)
        except HoldfastError as error:
            self.faults.append(str(error))
            raise
        response = resource_pb2.ResourceInvokeResponse()
        getattr(response, "return").update(answer)
        return response

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> resource_pb2.ReadResourceResponse:  # noqa: N802
        """Refuses: a world has nothing that its program does not declare."""
        fault = f"{request.name} ({request.type}): cannot be read by id; the sandbox has only what the program declares"
        self.faults.append(fault)
        raise ValueError(fault)


def _read(request: resource_pb2.RegisterResourceRequest, urn: str) -> Registration:
    inputs, marked = plain_inputs(request.object)
    return Registration(
        type=request.type,
        name=request.name,
        urn=urn,
        parent=request.parent,
        custom=request.custom,
        inputs=inputs,
        secrets=marked | (frozenset(request.additionalSecretOutputs) & inputs.keys()),
        dependencies=tuple(sorted(request.dependencies)),
        property_dependencies={
            name: tuple(sorted(sources.urns)) for name, sources in request.propertyDependencies.items() if sources.urns
        },
        protect=request.protect,
        ignore_changes=tuple(request.ignoreChanges),
    )


class EmbeddedLog:
    """Where the program's own messages go."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def Log(self, request: engine_pb2.LogRequest) -> empty_pb2.Empty:  # noqa: N802 - the protocol's name
        """Keeps warnings and errors; an error fails the run, as it does with the real engine."""
        if request.severity == engine_pb2.WARNING:
            self.warnings.append(request.message)
        elif request.severity == engine_pb2.ERROR:
            self.errors.append(request.message)
        return empty_pb2.Empty()
