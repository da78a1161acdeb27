"""The grant with which a service sends its traces to Google."""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp

from infra.settings import StackSettings
from runtime.contract.settings import tracing


def grant_trace_writer(
    name: str, settings: StackSettings, account: gcp.serviceaccount.Account, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Lets an account write traces, where the stack sends them to Google; another receiver asks for no role."""
    if settings.traces_endpoint != tracing.GOOGLE:
        return []
    return [
        gcp.projects.IAMMember(
            f"{name}-writes-traces",
            project=settings.project,
            role="roles/telemetry.tracesWriter",
            member=account.member,
            opts=opts,
        )
    ]
