"""Each resource of the execution path is declared as the services around it need it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.forbidden import Role, scan
from runtime.contract.names import DEAD_LETTERS_PATH, HEALTH_LIVE, HEALTH_READY, TICK_PATH
from sandbox.engine.deployment import Deployment
from sandbox.world import SCHEDULER_JOB, SERVICE, SUBSCRIPTION, TOPIC, short_name
from tests.support.stacks import NUMBER, PROJECT, REGION, realised

WORKER, API = "holdfast-execution", "holdfast-api"
API_URL = f"https://{API}-{NUMBER}.{REGION}.run.app"
WORKER_URL = f"https://{WORKER}-{NUMBER}.{REGION}.run.app"


def email(account: str) -> str:
    return f"{account}@{PROJECT}.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return realised(tmp_path_factory.mktemp("stack"))


def inputs_of(stack: Deployment, type_: str, name: str) -> dict[str, Any]:
    resource = stack.world.find(type_, name)
    assert resource is not None, f"{type_} {name} is not declared"
    return dict(resource.inputs)


def environment_of(stack: Deployment, service: str) -> dict[str, str]:
    (container,) = inputs_of(stack, SERVICE, service)["template"]["containers"]
    return {env["name"]: env.get("value", "from a secret") for env in container["envs"]}


def test_a_worker_that_checks_tokens_itself_takes_internal_traffic_only(tmp_path: Path) -> None:
    """Mode and infrastructure are one setting."""
    stack = realised(tmp_path, worker={"push_auth": "in_process"})
    service = inputs_of(stack, SERVICE, WORKER)

    assert service["invokerIamDisabled"] is True
    assert service["ingress"] == "INGRESS_TRAFFIC_INTERNAL_ONLY"
    assert environment_of(stack, WORKER)["PUBSUB_PUSH_AUTH"] == "in_process"


def test_what_a_consumer_needs_is_there_before_it(stack: Deployment) -> None:
    """BR-55 and BR-56: nothing is delivered, and nothing published, before the way to the dead letters is open."""
    order = {urn.rpartition("::")[2]: position for position, urn in enumerate(stack.created)}
    push, publish = order["execution-push"], order["api-publishes-execution"]
    retained = stack.world.find(SUBSCRIPTION, "holdfast-execution-dead-letters")
    pushing = stack.world.find(SUBSCRIPTION, "holdfast-execution-push")

    before_push = [
        "execution-push-invokes",
        "execution-agent-signs",
        "execution-agent-dead-letters",
        "execution-service",
    ]
    assert all(order[name] < push for name in before_push)
    assert push < order["execution-agent-forwards"] < publish < order["api-service"] < order["tick-job"]
    assert order["pubsub-agent"] < order["execution-agent-signs"], (
        "BR-129: the agent exists before it is granted anything"
    )
    assert order["dead-letters-agent-signs"] < order["execution-dead-letters-push"] < publish
    assert order["execution-uses-state"] < order["execution-service"]
    assert order["api-reads-signing-key"] < order["api-service"]
    assert pushing is not None
    assert retained is not None
    assert retained.urn in pushing.dependencies


def test_the_push_subscription_says_everything_that_has_a_bad_default(stack: Deployment) -> None:
    """BR-45, BR-50 and BR-62."""
    subscription = inputs_of(stack, SUBSCRIPTION, "holdfast-execution-push")

    assert subscription["ackDeadlineSeconds"] == 600
    assert subscription["messageRetentionDuration"] == "86400s"
    assert subscription["expirationPolicy"] == {"ttl": ""}
    assert subscription["retryPolicy"] == {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    assert subscription["topic"] == f"projects/{PROJECT}/topics/holdfast-execution-jobs"
    assert subscription["deadLetterPolicy"] == {
        "deadLetterTopic": f"projects/{PROJECT}/topics/holdfast-execution-dead-letters",
        "maxDeliveryAttempts": 20,
    }
    assert subscription["pushConfig"] == {
        "pushEndpoint": WORKER_URL,
        "oidcToken": {"serviceAccountEmail": email("holdfast-execution-push"), "audience": WORKER_URL},
    }
    assert subscription["enableExactlyOnceDelivery"] is False


def test_every_dead_letter_topic_has_a_subscription_that_keeps_what_arrives(stack: Deployment) -> None:
    """BR-56."""
    subscriptions = stack.world.of_type(SUBSCRIPTION)
    wanted = {
        short_name(one.inputs["deadLetterPolicy"]["deadLetterTopic"])
        for one in subscriptions
        if "deadLetterPolicy" in one.inputs
    }
    keeping = {short_name(one.inputs["topic"]): one.inputs for one in subscriptions if not one.inputs.get("pushConfig")}

    assert wanted == {"holdfast-execution-dead-letters"}
    assert wanted <= keeping.keys()
    kept = keeping["holdfast-execution-dead-letters"]
    assert kept["messageRetentionDuration"] == "2678400s"
    assert kept["expirationPolicy"] == {"ttl": ""}
    assert "deadLetterPolicy" not in kept
    assert {topic.name for topic in stack.world.of_type(TOPIC)} == {*wanted, "holdfast-execution-jobs"}


def test_dead_letters_are_pushed_to_the_api_until_it_takes_them(stack: Deployment) -> None:
    pushed = inputs_of(stack, SUBSCRIPTION, "holdfast-execution-dead-letters-push")
    identity = email("holdfast-dead-letters")

    assert pushed["topic"] == f"projects/{PROJECT}/topics/holdfast-execution-dead-letters"
    assert pushed["pushConfig"] == {
        "pushEndpoint": f"{API_URL}{DEAD_LETTERS_PATH}?source=execution",
        "oidcToken": {"serviceAccountEmail": identity, "audience": API_URL},
    }
    assert environment_of(stack, API)["API_DEAD_LETTER_SERVICE_ACCOUNT"] == identity
    assert pushed["ackDeadlineSeconds"] == 600
    assert pushed["messageRetentionDuration"] == "2678400s"
    assert pushed["expirationPolicy"] == {"ttl": ""}
    assert pushed["retryPolicy"] == {"minimumBackoff": "10s", "maximumBackoff": "600s"}
    assert "deadLetterPolicy" not in pushed, "a letter that cannot be recorded stays until it can"


def test_the_broker_waits_no_longer_for_the_api_than_the_platform_does(tmp_path: Path) -> None:
    stack = realised(tmp_path, api={"request_timeout_seconds": 90})
    assert inputs_of(stack, SUBSCRIPTION, "holdfast-execution-dead-letters-push")["ackDeadlineSeconds"] == 90


def test_the_worker_is_closed_and_the_api_is_open(stack: Deployment) -> None:
    """BR-131."""
    worker, api = inputs_of(stack, SERVICE, WORKER), inputs_of(stack, SERVICE, API)

    assert (worker["ingress"], worker["invokerIamDisabled"]) == ("INGRESS_TRAFFIC_INTERNAL_ONLY", False)
    assert (api["ingress"], api["invokerIamDisabled"]) == ("INGRESS_TRAFFIC_ALL", True)
    assert worker["customAudiences"] == [WORKER_URL]
    assert api["customAudiences"] == [API_URL]
    assert worker["template"]["serviceAccount"] == email(WORKER)
    assert api["template"]["serviceAccount"] == email(API)


@pytest.mark.parametrize(("service", "role"), [(WORKER, "worker"), (API, "api")])
def test_a_service_runs_its_role_under_the_probes_of_every_role(stack: Deployment, service: str, role: str) -> None:
    (container,) = inputs_of(stack, SERVICE, service)["template"]["containers"]

    assert [*container["commands"], *container["args"]] == ["python", "-m", "runtime", role]
    assert re.fullmatch(r".+@sha256:[0-9a-f]{64}", container["image"])
    assert container["startupProbe"]["httpGet"]["path"] == HEALTH_READY
    assert container["livenessProbe"]["httpGet"]["path"] == HEALTH_LIVE
    assert container["startupProbe"]["periodSeconds"] * container["startupProbe"]["failureThreshold"] <= 240
    assert isinstance(container["resources"]["cpuIdle"], bool)


@pytest.mark.parametrize("service", [WORKER, API])
def test_a_services_environment_is_sorted_and_leaves_the_platforms_variables_alone(
    stack: Deployment, service: str
) -> None:
    """BR-118, BR-126 and BR-135."""
    names = list(environment_of(stack, service))

    assert names == sorted(names)
    assert not {"PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION", "METRICS_PORT"} & set(names)
    assert scan(dict.fromkeys(names, ""), Role.API) == []


def test_the_signing_key_reaches_the_api_through_the_secret_manager_and_nothing_else(stack: Deployment) -> None:
    """BR-126 and BR-128."""
    (container,) = inputs_of(stack, SERVICE, API)["template"]["containers"]
    (key,) = [env for env in container["envs"] if env["name"] == "BACKEND_KEY"]

    assert key == {
        "name": "BACKEND_KEY",
        "valueSource": {"secretKeyRef": {"secret": "holdfast-signing-key", "version": "1"}},
    }
    assert "BACKEND_KEY" not in environment_of(stack, WORKER)


def test_instances_are_bounded_and_scale_to_zero(stack: Deployment) -> None:
    """BR-136."""
    for service in (WORKER, API):
        scaling = inputs_of(stack, SERVICE, service)["template"]["scaling"]
        assert scaling == {"minInstanceCount": 0, "maxInstanceCount": 10}


def test_the_sweeper_is_called_every_minute_by_its_own_identity(stack: Deployment) -> None:
    job = inputs_of(stack, SCHEDULER_JOB, "holdfast-tick")

    assert job["schedule"] == "* * * * *"
    assert job["httpTarget"]["uri"] == f"{API_URL}{TICK_PATH}"
    assert job["httpTarget"]["httpMethod"] == "POST"
    assert job["httpTarget"]["oidcToken"] == {"serviceAccountEmail": email("holdfast-tick"), "audience": API_URL}
    assert environment_of(stack, API)["API_TICK_SERVICE_ACCOUNT"] == email("holdfast-tick")
    assert int(job["attemptDeadline"].removesuffix("s")) <= 3600
