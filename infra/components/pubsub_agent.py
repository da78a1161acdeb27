"""Pub/Sub's own service agent."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.settings import StackSettings


@dataclass(frozen=True, kw_only=True)
class PubsubAgentArgs:
    """What the agent is looked up with."""

    settings: StackSettings


class PubsubAgent(pulumi.ComponentResource):
    """Makes sure that Pub/Sub's service agent exists, which a fresh project creates only at its first use.

    Grants nothing: each grant is with the resource that it is on. Does not enable the Pub/Sub API, which other stacks
    of the project use as well.
    """

    member: str
    """`serviceAccount:...`, from the project's number: some versions of the lookup leave its e-mail empty."""
    identity: gcp.projects.ServiceIdentity

    def __init__(self, name: str, args: PubsubAgentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:PubsubAgent", name, {}, opts)
        self.member = args.settings.names.pubsub_agent
        self.identity = gcp.projects.ServiceIdentity(
            f"{name}-agent",
            project=args.settings.project,
            service="pubsub.googleapis.com",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"member": self.member})
