"""What the project's program registers in a preview of an empty project: nothing that is computed is known yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp
from google.protobuf import empty_pb2
from pulumi.runtime import mocks, register_stack_transformation, set_all_config
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import Settings, configure

from infra.program import program
from sandbox.engine.embedded import _run_program
from sandbox.engine.monitor import EmbeddedLog
from sandbox.engine.registration import ROOT_TYPE, make_urn
from sandbox.engine.sdk_lock import ONE_AT_A_TIME
from tests.support.stacks import SIGNING_KEY, stack_values

STACK, PROJECT = "test", "holdfast"


class _NoMocks(mocks.Mocks):
    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, object], None]:
        raise NotImplementedError

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, object]]:
        raise NotImplementedError


@dataclass
class Registered:
    """What the engine was asked for.

    Attributes:
        resources: registrations, with the URN that each has.
        calls: of the provider's functions.
    """

    resources: dict[str, resource_pb2.RegisterResourceRequest] = field(default_factory=dict)
    calls: list[resource_pb2.ResourceInvokeRequest] = field(default_factory=list)


class _Monitor(mocks.MockMonitor):
    def __init__(self) -> None:
        super().__init__(_NoMocks())
        self.seen = Registered()

    def RegisterResource(  # noqa: N802 - as below, the protocol's name
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        urn = make_urn(STACK, PROJECT, request.parent, request.type, request.name)
        if request.type != ROOT_TYPE:
            self.seen.resources[urn] = request
        return resource_pb2.RegisterResourceResponse(urn=urn, object=request.object)

    def RegisterResourceOutputs(self, _: resource_pb2.RegisterResourceOutputsRequest) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:  # noqa: N802
        self.seen.calls.append(request)
        response = resource_pb2.ResourceInvokeResponse()
        getattr(response, "return").update({"member": "serviceAccount:agent@example.com"})
        return response


def previewed(run: Callable[[], None], **changes: object) -> Registered:
    """Runs a program on a stack's values; every output that is no input stays unknown."""
    values: Mapping[str, str] = stack_values(**changes)
    monitor, log = _Monitor(), EmbeddedLog()

    def preview() -> None:
        configure(Settings(project=PROJECT, stack=STACK, monitor=monitor, engine=log, dry_run=True))
        set_all_config(dict(values), [SIGNING_KEY])
        _run_program(run)

    with ONE_AT_A_TIME, ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(preview).result()
    assert log.errors == []
    return monitor.seen


def under_another_provider() -> None:
    """The project's program, with a provider of another project given to each of its components and to nothing else."""
    other = gcp.Provider("other", project="p-other", region="us-central1")

    def give(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        if args.type_.startswith("holdfast:infra:") and args.opts.parent is None:
            args.opts.providers = [other]
        return pulumi.ResourceTransformationResult(args.props, args.opts)

    register_stack_transformation(give)
    program()
