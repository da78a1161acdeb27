"""The API under a domain of one's own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.components.api import Api
from infra.naming import labels
from infra.sections.public_endpoint import PublicEndpointPlan
from infra.settings import StackSettings

SCHEME: Final = "EXTERNAL_MANAGED"
"""The global external Application Load Balancer; the classic one is EXTERNAL."""


@dataclass(frozen=True, kw_only=True)
class PublicEndpointArgs:
    """Which service, under which domain."""

    settings: StackSettings
    plan: PublicEndpointPlan
    api: Api


class PublicEndpoint(pulumi.ComponentResource):
    """A load balancer with an address, a certificate that Google renews, and the API as its only backend.

    HTTP is answered with a redirect. The certificate is issued once the domain's A record points at the address, which
    takes up to an hour; a changed domain gets a certificate of its own before the old one goes.

    The API stays open at its run.app address: workers, the executor, Pub/Sub and the scheduler call it there, and the
    calls of services that have no way through the network would be refused if only load balancers were admitted. So a
    security policy here could be walked around, and none is made: the API checks every caller by itself.
    Does not manage DNS.
    """

    address: gcp.compute.GlobalAddress
    url: str

    def __init__(self, name: str, args: PublicEndpointArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:PublicEndpoint", name, {}, opts)
        self._name, self._args = name, args
        self._project, self._physical = args.settings.project, args.settings.names.public_endpoint
        self.url = f"https://{args.plan.domain}"
        self.address = gcp.compute.GlobalAddress(
            f"{name}-address",
            name=self._physical,
            project=self._project,
            labels=labels(args.settings.stack, "api"),
            opts=self._child(),
        )
        backend = self._create_backend()
        self._create_https(backend)
        self._create_redirect()
        self.register_outputs({"address": self.address.address, "url": self.url})

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self)

    def _create_backend(self) -> gcp.compute.BackendService:
        group = gcp.compute.RegionNetworkEndpointGroup(
            f"{self._name}-group",
            name=self._physical,
            project=self._project,
            region=self._args.settings.region,
            network_endpoint_type="SERVERLESS",
            cloud_run=gcp.compute.RegionNetworkEndpointGroupCloudRunArgs(service=self._args.api.service.name),
            opts=self._child(),
        )
        return gcp.compute.BackendService(
            f"{self._name}-backend",
            name=self._physical,
            project=self._project,
            load_balancing_scheme=SCHEME,
            # No timeout and no health check: the platform takes neither for a service of Cloud Run, whose own hold.
            protocol="HTTPS",
            backends=[gcp.compute.BackendServiceBackendArgs(group=group.id)],
            log_config=gcp.compute.BackendServiceLogConfigArgs(enable=True, sample_rate=1),
            opts=self._child(),
        )

    def _create_https(self, backend: gcp.compute.BackendService) -> None:
        url_map = gcp.compute.URLMap(
            f"{self._name}-urls",
            name=self._physical,
            project=self._project,
            default_service=backend.id,
            opts=self._child(),
        )
        policy = gcp.compute.SSLPolicy(
            f"{self._name}-tls",
            name=self._physical,
            project=self._project,
            profile="MODERN",
            min_tls_version="TLS_1_2",
            opts=self._child(),
        )
        proxy = gcp.compute.TargetHttpsProxy(
            f"{self._name}-https",
            name=self._physical,
            project=self._project,
            url_map=url_map.id,
            ssl_certificates=[self._create_certificate().id],
            ssl_policy=policy.id,
            opts=self._child(),
        )
        self._forward("https", 443, proxy.id)

    def _create_certificate(self) -> gcp.compute.ManagedSslCertificate:
        domain = self._args.plan.domain
        suffix = hashlib.sha256(domain.encode()).hexdigest()[:8]
        return gcp.compute.ManagedSslCertificate(
            f"{self._name}-certificate",
            name=f"{self._physical}-{suffix}",
            project=self._project,
            managed=gcp.compute.ManagedSslCertificateManagedArgs(domains=[domain]),
            opts=self._child(),
        )

    def _create_redirect(self) -> None:
        url_map = gcp.compute.URLMap(
            f"{self._name}-redirect",
            name=f"{self._physical}-redirect",
            project=self._project,
            default_url_redirect=gcp.compute.URLMapDefaultUrlRedirectArgs(
                https_redirect=True, redirect_response_code="PERMANENT_REDIRECT", strip_query=False
            ),
            opts=self._child(),
        )
        proxy = gcp.compute.TargetHttpProxy(
            f"{self._name}-http",
            name=self._physical,
            project=self._project,
            url_map=url_map.id,
            opts=self._child(),
        )
        self._forward("http", 80, proxy.id)

    def _forward(self, scheme: str, port: int, proxy: pulumi.Input[str]) -> None:
        gcp.compute.GlobalForwardingRule(
            f"{self._name}-{scheme}-rule",
            name=f"{self._physical}-{scheme}",
            project=self._project,
            load_balancing_scheme=SCHEME,
            ip_address=self.address.id,
            ip_protocol="TCP",
            port_range=str(port),
            target=proxy,
            labels=labels(self._args.settings.stack, "api"),
            opts=self._child(),
        )
