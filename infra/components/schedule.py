"""The clock of the sweeper."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.alignment import TICK_DEADLINE
from infra.components.api import Api
from infra.settings import StackSettings
from runtime.contract import names


@dataclass(frozen=True, kw_only=True)
class ScheduleArgs:
    """Whom it calls."""

    settings: StackSettings
    api: Api


class Schedule(pulumi.ComponentResource):
    """A job that calls the API's sweeper every minute, with an identity of its own.

    The identity has no role: the API checks its token. There are no retries: the next minute is one.
    """

    job: gcp.cloudscheduler.Job

    def __init__(self, name: str, args: ScheduleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:Schedule", name, {}, opts)
        settings = args.settings
        identity = gcp.serviceaccount.Account(
            f"{name}-identity",
            account_id=settings.names.tick,
            project=settings.project,
            display_name="Holdfast sweeper: calls the API every minute",
            opts=pulumi.ResourceOptions(parent=self),
        )
        address = settings.names.address(settings.names.api)
        self.job = gcp.cloudscheduler.Job(
            f"{name}-job",
            name=settings.names.tick,
            project=settings.project,
            region=settings.region,
            description="Publishes what was not published, expires what nobody finished",
            schedule="* * * * *",
            time_zone="Etc/UTC",
            attempt_deadline=f"{TICK_DEADLINE}s",
            retry_config=gcp.cloudscheduler.JobRetryConfigArgs(retry_count=0),
            http_target=gcp.cloudscheduler.JobHttpTargetArgs(
                http_method="POST",
                uri=f"{address}{names.TICK_PATH}",
                oidc_token=gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
                    service_account_email=identity.email, audience=address
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[args.api.service]),
        )
        self.register_outputs({"job": self.job.name})
