"""Where a worker's deliveries come from, and whose they are."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypedDict

from runtime.contract.settings import rules, shared
from runtime.contract.settings.parse import EnvironmentReader
from runtime.contract.settings.words import PushAuth

_KEY_GRACE_MAX: Final = 6 * 3600


class PushSettings(TypedDict):
    """The fields of this group, see WorkerSettings."""

    subscription: str
    push_audience: str | None
    push_service_account: str
    push_auth: PushAuth
    key_grace: timedelta


def read_push(env: EnvironmentReader, project_id: str) -> PushSettings:
    """Reads the group."""
    subscription = _read_subscription(env, project_id)
    audience = shared.read_address(env, "PUBSUB_PUSH_AUDIENCE", "invalid_push_audience", required=False)
    account = shared.read_account(env, "PUBSUB_PUSH_SERVICE_ACCOUNT", "invalid_push_service_account", required=True)
    return PushSettings(
        subscription=subscription,
        push_audience=audience,
        push_service_account=account or "",
        push_auth=env.word("PUBSUB_PUSH_AUTH", PushAuth, "invalid_push_auth", PushAuth.PLATFORM),
        key_grace=env.seconds("PUBSUB_PUSH_KEY_GRACE_SECS", 0, _KEY_GRACE_MAX, 0),
    )


def _read_subscription(env: EnvironmentReader, project_id: str) -> str:
    name = "PUBSUB_SUBSCRIPTION"
    value = env.required(name, "execution-jobs")
    if value is None or not env.good("GCP_PROJECT_ID"):
        return ""
    full = rules.canonical_name(value, project_id, "subscriptions")
    if full is None:
        env.refuse(name, "invalid_subscription", rules.RESOURCE_RULE, "execution-jobs")
    return full or ""
