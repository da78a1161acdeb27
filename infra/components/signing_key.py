"""The key that signs jobs, in the secret manager."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.naming import labels
from infra.settings import StackSettings


@dataclass(frozen=True, kw_only=True)
class SigningKeyArgs:
    """Where the key comes from."""

    settings: StackSettings


class SigningKey(pulumi.ComponentResource):
    """A secret and the version that holds the stack's signing key.

    Does not make the key, and grants nothing: the grant is with the service that signs. A changed key becomes a new
    version; the old one goes after the services have left it.
    """

    secret: gcp.secretmanager.Secret
    version: gcp.secretmanager.SecretVersion

    def __init__(self, name: str, args: SigningKeyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:SigningKey", name, {}, opts)
        settings = args.settings
        self.secret = gcp.secretmanager.Secret(
            f"{name}-secret",
            secret_id=settings.names.signing_key,
            project=settings.project,
            replication=gcp.secretmanager.SecretReplicationArgs(auto=gcp.secretmanager.SecretReplicationAutoArgs()),
            deletion_protection=settings.deletion_protection,
            labels=labels(settings.stack, "api"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.version = gcp.secretmanager.SecretVersion(
            f"{name}-version",
            secret=self.secret.id,
            secret_data=pulumi.Output.secret(settings.signing_key),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"secret": self.secret.secret_id, "version": self.version.version})
