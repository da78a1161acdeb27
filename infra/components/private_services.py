"""The way from our network to services of Google's that are in a network of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.settings import StackSettings

PREFIX_LENGTH: Final = 16
"""Size of the range that is set aside; Google's advice, so that further services and regions find room."""


@dataclass(frozen=True, kw_only=True)
class PrivateServicesArgs:
    """Which network they are to be in."""

    settings: StackSettings
    network: gcp.compute.Network


class PrivateServices(pulumi.ComponentResource):
    """A range of addresses for Google's services, and the connection that lets them use it.

    Does not manage the network, nor the API `servicenetworking.googleapis.com`, which the deployer enables once. For
    days after the last instance is deleted Google has the connection in use and refuses to delete it; the peering is
    taken off the network all the same, which could not be deleted with it.
    """

    connection: gcp.servicenetworking.Connection

    def __init__(self, name: str, args: PrivateServicesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:PrivateServices", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        addresses = gcp.compute.GlobalAddress(
            f"{name}-range",
            name=args.settings.names.private_services,
            project=args.settings.project,
            purpose="VPC_PEERING",
            address_type="INTERNAL",
            prefix_length=PREFIX_LENGTH,
            network=args.network.id,
            opts=child,
        )
        self.connection = gcp.servicenetworking.Connection(
            f"{name}-connection",
            network=args.network.id,
            service="servicenetworking.googleapis.com",
            reserved_peering_ranges=[addresses.name],
            deletion_policy="REMOVE_PEERING",
            # What is left of an earlier stack is taken over.
            update_on_creation_fail=True,
            opts=child,
        )
        self.register_outputs({"peering": self.connection.peering})
