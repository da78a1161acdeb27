"""The network through which services reach what is not on the internet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.settings import StackSettings

SUBNET_RANGE: Final = "10.0.0.0/20"
"""Addresses of instances: 4096, of which a service takes up to twice its instances while revisions change."""
PLATFORM_DOMAIN: Final = "run.app."
PRIVATE_ADDRESSES: Final = ("199.36.153.8", "199.36.153.9", "199.36.153.10", "199.36.153.11")
"""Google's `private.googleapis.com`: counts as a private range, so that it is routed through the network."""
_TTL: Final = 300


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """Where the network is."""

    settings: StackSettings


class Network(pulumi.ComponentResource):
    """A VPC with one subnet, and a private zone that sends `run.app` to Google's private addresses.

    A service whose traffic to private ranges goes through it counts as a caller from inside at a service with internal
    ingress; everything else it calls still goes straight to the internet, so that neither a NAT gateway nor a connector
    is paid for.

    Does not manage firewall rules: those that every VPC has let answers in and nothing else, and Cloud Run listens on
    no address of the network. Does not manage routes: the default one carries Google's private addresses. Does not
    manage peering: the private access of a database takes `network`, and the range is not chosen to be peered with
    networks of other people. After a `destroy` Cloud Run keeps addresses of the subnet for up to two hours, and Google
    refuses to delete the subnet until then.
    """

    network: gcp.compute.Network
    subnet: gcp.compute.Subnetwork
    ready: list[pulumi.Resource]
    """What must exist before a service calls another one through the network."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:Network", name, {}, opts)
        self._settings = args.settings
        self.network = gcp.compute.Network(
            f"{name}-vpc",
            name=args.settings.names.network,
            project=args.settings.project,
            auto_create_subnetworks=False,
            opts=self._child(),
        )
        self.subnet = gcp.compute.Subnetwork(
            f"{name}-subnet",
            name=args.settings.names.network,
            project=args.settings.project,
            region=args.settings.region,
            network=self.network.id,
            ip_cidr_range=SUBNET_RANGE,
            private_ip_google_access=True,
            opts=self._child(),
        )
        self.ready = [self.subnet, *self._create_zone(name)]
        self.register_outputs({"network": self.network.id, "subnet": self.subnet.id})

    @property
    def access(self) -> gcp.cloudrunv2.ServiceTemplateVpcAccessArgs:
        """Direct VPC egress of a service, for private ranges only."""
        return gcp.cloudrunv2.ServiceTemplateVpcAccessArgs(
            egress="PRIVATE_RANGES_ONLY",
            network_interfaces=[
                gcp.cloudrunv2.ServiceTemplateVpcAccessNetworkInterfaceArgs(
                    network=self.network.id, subnetwork=self.subnet.id
                )
            ],
        )

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self)

    def _create_zone(self, name: str) -> list[pulumi.Resource]:
        zone = gcp.dns.ManagedZone(
            f"{name}-platform",
            name=self._settings.names.platform_zone,
            project=self._settings.project,
            dns_name=PLATFORM_DOMAIN,
            description="Services of Cloud Run, at addresses that are routed through the network",
            visibility="private",
            private_visibility_config=gcp.dns.ManagedZonePrivateVisibilityConfigArgs(
                networks=[
                    gcp.dns.ManagedZonePrivateVisibilityConfigNetworkArgs(network_url=self.network.id),
                ]
            ),
            labels=labels(self._settings.stack, "network"),
            opts=self._child(),
        )
        addresses = self._create_record(f"{name}-platform-addresses", zone, PLATFORM_DOMAIN, "A", PRIVATE_ADDRESSES)
        services = self._create_record(
            f"{name}-platform-services", zone, f"*.{PLATFORM_DOMAIN}", "CNAME", (PLATFORM_DOMAIN,)
        )
        return [addresses, services]

    def _create_record(
        self, logical: str, zone: gcp.dns.ManagedZone, record: str, kind: str, data: tuple[str, ...]
    ) -> gcp.dns.RecordSet:
        return gcp.dns.RecordSet(
            logical,
            project=self._settings.project,
            managed_zone=zone.name,
            name=record,
            type=kind,
            ttl=_TTL,
            rrdatas=list(data),
            opts=self._child(),
        )
