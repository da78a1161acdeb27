"""Small declared worlds, as the Pulumi program would have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandbox.world import ACCOUNT, SCHEDULER_JOB, SUBSCRIPTION, TOPIC, Resource, World

PROJECT = "p-test"
NUMBER = "123456789012"
REGION = "europe-west1"
API = f"api@{PROJECT}.iam.gserviceaccount.com"
PUSH = f"push@{PROJECT}.iam.gserviceaccount.com"
WORKER_URL = f"https://worker-{NUMBER}.{REGION}.run.app"

TOPIC_GRANT = "gcp:pubsub/topicIAMMember:TopicIAMMember"
SUBSCRIPTION_GRANT = "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember"
ACCOUNT_GRANT = "gcp:serviceaccount/iAMMember:IAMMember"
PROJECT_GRANT = "gcp:projects/iAMMember:IAMMember"

AGENT_MAY_MINT = "agent-mints"


def empty_world(state_dir: Path) -> World:
    """A project without resources."""
    return World(PROJECT, NUMBER, REGION, state_dir)


def declare(world: World, type_: str, name: str, **inputs: Any) -> None:
    """Adds or replaces one resource."""
    world.put(Resource(type_, name, f"urn:{type_}::{name}", {"name": name, **inputs}, {}))


def topic(world: World, name: str) -> str:
    """Declares a topic; returns its full name."""
    declare(world, TOPIC, name)
    return f"projects/{PROJECT}/topics/{name}"


def subscription(world: World, name: str, of_topic: str, **inputs: Any) -> str:
    """Declares a subscription; returns its full name."""
    declare(world, SUBSCRIPTION, name, **{"topic": of_topic, "ackDeadlineSeconds": 60, **inputs})
    return f"projects/{PROJECT}/subscriptions/{name}"


def push_config(endpoint: str = WORKER_URL, account: str | None = PUSH) -> dict[str, Any]:
    """A push configuration with a token whose audience is the endpoint."""
    config: dict[str, Any] = {"pushEndpoint": endpoint}
    if account is not None:
        config["oidcToken"] = {"serviceAccountEmail": account, "audience": endpoint}
    return config


def may_publish(world: World, name: str, email: str = API) -> None:
    """Grants publishing on a topic."""
    member = email if ":" in email else f"serviceAccount:{email}"
    declare(world, TOPIC_GRANT, f"publish-{name}-{member}", topic=name, role="roles/pubsub.publisher", member=member)


def may_consume(world: World, name: str, email: str = API) -> None:
    """Grants pulling from a subscription."""
    member = email if ":" in email else f"serviceAccount:{email}"
    declare(
        world, SUBSCRIPTION_GRANT, f"consume-{name}-{member}",
        subscription=name, role="roles/pubsub.subscriber", member=member,
    )  # fmt: skip


def agent_may_mint(world: World, email: str = PUSH) -> None:
    """Declares an account and lets Pub/Sub's agent make its tokens."""
    declare(world, ACCOUNT, email.split("@", maxsplit=1)[0], accountId=email.split("@", maxsplit=1)[0], email=email)
    declare(
        world, ACCOUNT_GRANT, AGENT_MAY_MINT,
        serviceAccountId=f"projects/{PROJECT}/serviceAccounts/{email}",
        role="roles/iam.serviceAccountTokenCreator",
        member=world.agent("gcp-sa-pubsub"),
    )  # fmt: skip


def job(world: World, name: str, schedule: str, **inputs: Any) -> None:
    """Declares a scheduler job."""
    declare(world, SCHEDULER_JOB, name, schedule=schedule, **inputs)
