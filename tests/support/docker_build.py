"""A builder of images that builds nothing: the SDK's part where it is not installed, and the provider's in its place.

The SDK is in the dependency group `image`; where that is installed, the real one is used. The provider's part is told
from its source: it knows no digest in a preview, and says the one of what it pushed in a deployment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import grpc
import pulumi
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from infra.sections.image_build import PACKAGE
from sandbox.engine import embedded
from sandbox.engine.monitor import EmbeddedMonitor, _read
from sandbox.engine.serving import served
from sandbox.engine.wire import plain_inputs, wrapped_outputs

IMAGE: Final = "docker-build:index:Image"
DIGEST: Final = f"sha256:{'a' * 64}"
"""Of every image."""
_UNKNOWN: Final = pulumi.runtime.rpc.UNKNOWN


class _Platform(StrEnum):
    LINUX_AMD64 = "linux/amd64"


class _Image(pulumi.CustomResource):
    digest: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        build_on_preview: bool,
        context: Mapping[str, str],
        exports: Sequence[Mapping[str, Any]],
        platforms: Sequence[_Platform],
        push: bool,
    ) -> None:
        inputs = {"buildOnPreview": build_on_preview, "context": context, "exports": exports, "platforms": platforms}
        super().__init__(IMAGE, name, {**inputs, "push": push, "digest": None}, opts)


def _module() -> ModuleType:
    """As much of the SDK as the stack uses, with the names of its inputs as they travel."""
    module = ModuleType(PACKAGE)
    parts = {
        "Image": _Image,
        "Platform": _Platform,
        "BuildContextArgs": lambda *, location: {"location": location},
        "ExportArgs": lambda *, registry: {"registry": registry},
        "ExportRegistryArgs": lambda *, names, push_by_digest: {"names": names, "pushByDigest": push_by_digest},
    }
    for name, part in parts.items():
        setattr(module, name, part)
    module.__spec__ = ModuleSpec(PACKAGE, None)
    return module


@contextmanager
def installed() -> Iterator[None]:
    """The SDK: the real one where it is installed."""
    if find_spec(PACKAGE):
        yield
        return
    sys.modules[PACKAGE] = _module()
    try:
        yield
    finally:
        # Alone: what was loaded meanwhile, as parts of Google's SDK, must not be loaded again.
        del sys.modules[PACKAGE]


@contextmanager
def not_installed() -> Iterator[None]:
    """No SDK, wherever it is."""
    with patch("infra.values.is_builder_installed", return_value=False):
        yield


@contextmanager
def building(digest: str = DIGEST) -> Iterator[None]:
    """The SDK, and an embedded engine whose images have this digest; "": a builder that says none."""

    class Monitor(EmbeddedMonitor):
        def _register(self, request: Any, urn: str) -> Any:
            if request.type != IMAGE:
                return super()._register(request, urn)
            registration = _read(request, urn)
            self.registrations.append(registration)
            outputs = wrapped_outputs({**registration.inputs, "digest": digest}, frozenset())
            return pulumi.runtime.proto.resource_pb2.RegisterResourceResponse(urn=urn, id=digest, object=outputs)

    with installed(), patch.object(embedded, "EmbeddedMonitor", Monitor):
        yield


class _Provider(provider_pb2_grpc.ResourceProviderServicer):
    """Takes every image in a preview, and builds none."""

    def GetPluginInfo(self, _: empty_pb2.Empty, __: grpc.ServicerContext) -> plugin_pb2.PluginInfo:  # noqa: N802 - as below, the protocol's name
        return plugin_pb2.PluginInfo(version="0.0.22")

    def Attach(self, _: plugin_pb2.PluginAttach, __: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def CheckConfig(self, request: provider_pb2.CheckRequest, _: grpc.ServicerContext) -> provider_pb2.CheckResponse:  # noqa: N802
        return provider_pb2.CheckResponse(inputs=request.news)

    def Configure(self, _: provider_pb2.ConfigureRequest, __: grpc.ServicerContext) -> provider_pb2.ConfigureResponse:  # noqa: N802
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True, acceptResources=True)

    def Check(self, request: provider_pb2.CheckRequest, _: grpc.ServicerContext) -> provider_pb2.CheckResponse:  # noqa: N802
        return provider_pb2.CheckResponse(inputs=request.news)

    def Cancel(self, _: empty_pb2.Empty, __: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def Create(self, request: provider_pb2.CreateRequest, __: grpc.ServicerContext) -> provider_pb2.CreateResponse:  # noqa: N802
        assert request.preview
        values, _ = plain_inputs(request.properties)
        return provider_pb2.CreateResponse(properties=wrapped_outputs({**values, "digest": _UNKNOWN}, frozenset()))


@contextmanager
def serving() -> Iterator[int]:
    """A provider of images for the real engine; its port."""
    with served(provider_pb2_grpc.add_ResourceProviderServicer_to_server, _Provider()) as port:
        yield port
