"""The PostgreSQL database that counts what users store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pulumi
import pulumi_gcp as gcp

from infra.components.private_services import PrivateServices
from infra.naming import labels
from infra.sections.usage_database import UsageDatabasePlan
from infra.settings import StackSettings

VERSION: Final = "POSTGRES_17"
"""Pinned: a new major version is a decision, and a day's work."""
EDITION: Final = "ENTERPRISE"
"""Said, because from PostgreSQL 16 on the default is the dearer one, which has no small tiers."""
DATABASE: Final = "usage"
"""The one database of the instance."""
LOG_DAYS: Final = 7
"""Days back to which any moment can be restored; the edition's most."""
ROLES: Final = {"connects": "roles/cloudsql.client", "logs-in": "roles/cloudsql.instanceUser"}
"""Part of a grant's name -> role of an account that uses the database."""


@dataclass(frozen=True, kw_only=True)
class UsageDatabaseArgs:
    """How large it is, and who uses it.

    Attributes:
        settings: the stack's.
        plan: its section.
        services: makes the instance reachable from our network.
        accounts: part of a grant's name -> account that may log in; empty: nobody may.
    """

    settings: StackSettings
    plan: UsageDatabasePlan
    services: PrivateServices
    accounts: Mapping[str, gcp.serviceaccount.Account] = field(default_factory=dict)


class UsageDatabase(pulumi.ComponentResource):
    """A PostgreSQL instance without public address and without passwords, its database, and its users.

    Does not create tables, nor grant anything inside the database: migrations do. There is no password anywhere, not
    even one for `postgres`; whoever administers it is an account or a person with a login of their own.
    """

    instance: gcp.sql.DatabaseInstance
    database: gcp.sql.Database
    ready: list[pulumi.Resource]
    """What must exist before a service logs in."""

    def __init__(self, name: str, args: UsageDatabaseArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("holdfast:infra:UsageDatabase", name, {}, opts)
        self._name, self._args = name, args
        self.instance = self._create_instance()
        self.database = gcp.sql.Database(
            f"{name}-database",
            name=DATABASE,
            project=args.settings.project,
            instance=self.instance.name,
            # It goes with its instance; by itself it cannot while a service is connected.
            deletion_policy="ABANDON",
            opts=self._child(),
        )
        self.ready = [self.database]
        for part, account in args.accounts.items():
            self.ready += [self._create_user(part, account), *self._create_grants(part, account)]
        self.register_outputs({"connection": self.instance.connection_name, "database": self.database.name})

    def _child(self, depends_on: list[pulumi.Resource] | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on or [])

    def _create_instance(self) -> gcp.sql.DatabaseInstance:
        settings, plan = self._args.settings, self._args.plan
        protected = settings.deletion_protection
        return gcp.sql.DatabaseInstance(
            f"{self._name}-instance",
            name=settings.names.usage_database(plan.generation),
            project=settings.project,
            region=settings.region,
            database_version=VERSION,
            # Both: one is asked by Pulumi, the other by Google whoever deletes.
            deletion_protection=protected,
            settings=gcp.sql.DatabaseInstanceSettingsArgs(
                tier=plan.tier,
                edition=EDITION,
                availability_type="REGIONAL" if plan.regional else "ZONAL",
                deletion_protection_enabled=protected,
                disk_autoresize=True,
                disk_autoresize_limit=plan.disk_limit_gigabytes,
                backup_configuration=_backups(plan.kept_backups),
                database_flags=[
                    gcp.sql.DatabaseInstanceSettingsDatabaseFlagArgs(name="cloudsql.iam_authentication", value="on")
                ],
                ip_configuration=gcp.sql.DatabaseInstanceSettingsIpConfigurationArgs(
                    ipv4_enabled=False,
                    private_network=self._args.services.connection.network,
                    ssl_mode="ENCRYPTED_ONLY",
                ),
                user_labels=labels(settings.stack, "usage"),
            ),
            opts=pulumi.ResourceOptions(parent=self, protect=protected, depends_on=[self._args.services.connection]),
        )

    def _create_user(self, part: str, account: gcp.serviceaccount.Account) -> gcp.sql.User:
        return gcp.sql.User(
            f"{self._name}-user-{part}",
            name=account.email.apply(user_of),
            project=self._args.settings.project,
            instance=self.instance.name,
            type="CLOUD_IAM_SERVICE_ACCOUNT",
            # A role that owns tables cannot be dropped; without the grants below nobody can log in as it.
            deletion_policy="ABANDON",
            opts=self._child(),
        )

    def _create_grants(self, part: str, account: gcp.serviceaccount.Account) -> list[pulumi.Resource]:
        return [
            gcp.projects.IAMMember(
                f"{self._name}-{part}-{verb}",
                project=self._args.settings.project,
                role=role,
                member=account.member,
                opts=self._child(),
            )
            for verb, role in ROLES.items()
        ]


def _backups(kept: int) -> gcp.sql.DatabaseInstanceSettingsBackupConfigurationArgs:
    return gcp.sql.DatabaseInstanceSettingsBackupConfigurationArgs(
        enabled=True,
        point_in_time_recovery_enabled=True,
        transaction_log_retention_days=LOG_DAYS,
        backup_retention_settings=gcp.sql.DatabaseInstanceSettingsBackupConfigurationBackupRetentionSettingsArgs(
            retained_backups=kept
        ),
    )


def user_of(email: str) -> str:
    """Name of an account's database user: PostgreSQL's names are too short for the whole e-mail."""
    return email.removesuffix(".gserviceaccount.com")
