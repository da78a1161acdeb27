"""What a stack keeps besides its records: dead letters as files, users' files, and the count of them."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from infra.components.content_bucket import ContentBucket, ContentBucketArgs
from infra.components.network import Network
from infra.components.private_services import PrivateServices, PrivateServicesArgs
from infra.components.state_store import StateStore
from infra.components.usage_database import UsageDatabase, UsageDatabaseArgs
from infra.settings import StackSettings


def deploy_storage(
    settings: StackSettings, store: StateStore, network: Network | None
) -> Mapping[str, pulumi.Input[str]]:
    """Declares the parts of it that the stack has sections for.

    Args:
        settings: the stack's.
        store: of the records.
        network: where a database is; needed where the stack has one.

    Returns:
        what the stack exports of it.
    """
    exports: dict[str, pulumi.Input[str]] = {}
    if settings.content is not None:
        content = ContentBucket("content", ContentBucketArgs(settings=settings, plan=settings.content, store=store))
        exports |= {"content_bucket": content.bucket.name, "content_subscription": content.subscription.id}
    if settings.usage_database is not None and network is not None:
        services = PrivateServices("services", PrivateServicesArgs(settings=settings, network=network.network))
        usage = UsageDatabase(
            "usage", UsageDatabaseArgs(settings=settings, plan=settings.usage_database, services=services)
        )
        exports["usage_database"] = usage.instance.connection_name
    return exports
