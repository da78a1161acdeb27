"""The executor service."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.alignment import derive_executor_timeout
from infra.components.service import Ingress, ServiceArgs, confirmed_address, create_service
from infra.components.trace_writer import grant_trace_writer
from infra.sections.executor import ExecutorPlan
from infra.settings import StackSettings
from runtime.contract.settings.executor import ExecutorSettings


@dataclass(frozen=True, kw_only=True)
class ExecutorArgs:
    """What the executor is started with."""

    settings: StackSettings
    image: pulumi.Input[str]
    plan: ExecutorPlan
    environment: ExecutorSettings


class Executor(pulumi.ComponentResource):
    """A service that runs jobs while their callers wait, with an account of its own that at most writes traces.

    It takes traffic from inside the project only, always has its CPU, and belongs in no URL map: load balancers may
    reach it because that is the ingress which Google documents for it, not because one does. Does not say who may call
    it: the grant is with the caller. Does not manage a network: it calls the API at its public address.
    """

    service: gcp.cloudrunv2.Service
    address: pulumi.Output[str]
    """Confirmed by the platform; what is planned uses the same text from `infra.naming`."""

    def __init__(self, name: str, args: ExecutorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:Executor", name, {}, opts)
        settings, plan = args.settings, args.plan
        account = gcp.serviceaccount.Account(
            f"{name}-account",
            account_id=settings.names.executor,
            project=settings.project,
            display_name="Holdfast executor: runs jobs whose callers wait",
            opts=pulumi.ResourceOptions(parent=self),
        )
        traces = grant_trace_writer(name, settings, account, pulumi.ResourceOptions(parent=self))
        self.service = create_service(
            f"{name}-service",
            ServiceArgs(
                settings=settings,
                image=args.image,
                role="executor",
                part="executor",
                name=settings.names.executor,
                account=account.email,
                environment=args.environment.to_env(),
                timeout=derive_executor_timeout(plan.run_timeout),
                concurrency=plan.concurrency,
                min_instances=plan.min_instances,
                max_instances=plan.max_instances,
                cpu=plan.cpu,
                memory=plan.memory,
                # Callbacks and the end of cancelled runs need it between requests.
                cpu_idle=False,
                ingress=Ingress.LOAD_BALANCER,
                invoker_check=True,
            ),
            pulumi.ResourceOptions(parent=self, depends_on=traces),
        )
        self.address = confirmed_address(self.service, settings.names.address(settings.names.executor))
        self.register_outputs({"address": self.address})
