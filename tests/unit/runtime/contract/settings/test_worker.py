"""The worker's settings: every row of its table, as data."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runtime.contract.settings.faults import SettingsError
from runtime.contract.settings.words import LogLevel, PushAuth, Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.timeouts import advise, check
from tests.support.job_keys import pair
from tests.support.settings import AUDIENCE, codes, faults, file_tracking_env, worker_env

NUMBERS = {
    "PORT": (1, 65535),
    "GCP_QUEUE_ACK_DEADLINE_SECS": (10, 600),
    "GCP_QUEUE_REQUEST_TIMEOUT_SECS": (60, 3600),
    "EXECUTOR_TIMEOUT_SECS": (1, 3570),
    "GCP_QUEUE_PROCESS_TIMEOUT_SECS": (30, 570),
    "GCP_QUEUE_CLAIM_HEARTBEAT_SECS": (5, 600),
    "GCP_QUEUE_CLAIM_STALE_AFTER_SECS": (30, 3600),
    "GCP_QUEUE_CLAIM_RETENTION_SECS": (3600, 604800),
    "GCP_QUEUE_MAX_DELIVERY_ATTEMPTS": (1, 100),
    "GCP_QUEUE_BROKER_MAX_ATTEMPTS": (5, 100),
    "PUBSUB_PUSH_KEY_GRACE_SECS": (0, 21600),
    "FIRESTORE_MAX_RETRIES": (0, 20),
    "EXECUTOR_BATCH_INTERVAL_MS": (0, 2**31 - 1),
    "EXECUTOR_CALLBACK_TIMEOUT_MS": (0, 2**31 - 1),
    "EXECUTOR_CALLBACK_RETRIES": (0, 2**32 - 1),
}


NOT_PLAIN = [" 600", "600\n", "6_00", "６００", "+600", "600.0", "0600", "", " ", "-1", "1e2", "48O", "0x10"]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_plain_digits_and_nothing_around_them(name: str) -> None:
    """BR-54"""
    for value in NOT_PLAIN:
        found = faults(WorkerSettings, worker_env(**{name: value}))
        assert [fault.code for fault in found if fault.detail.startswith(name)] == ["invalid_number"], value


@pytest.mark.parametrize(("name", "low", "high"), [(name, *bounds) for name, bounds in NUMBERS.items()])
def test_a_number_outside_its_range_is_refused_and_the_range_is_named(name: str, low: int, high: int) -> None:
    for value in ([low - 1] if low else []) + [high + 1, 10**30]:
        found = faults(WorkerSettings, worker_env(**{name: str(value)}))
        matching = [fault for fault in found if fault.code == "number_out_of_range"]
        assert len(matching) == 1, f"{name}={value}"
        assert f"{low} to {high}" in matching[0].detail


TEXTS: list[tuple[str, str | None, str]] = [
    ("GCP_QUEUE_WORKLOAD", None, "missing_configuration"),
    ("GCP_QUEUE_WORKLOAD", " ", "empty_configuration"),
    ("GCP_QUEUE_WORKLOAD", "exec", "invalid_workload"),
    ("GCP_PROJECT_ID", None, "missing_configuration"),
    ("GCP_PROJECT_ID", "", "empty_configuration"),
    ("GCP_PROJECT_ID", "short", "invalid_project_id"),
    ("GCP_PROJECT_ID", "p" * 31, "invalid_project_id"),
    ("GCP_PROJECT_ID", "1project", "invalid_project_id"),
    ("GCP_PROJECT_ID", "P-test", "invalid_project_id"),
    ("GCP_PROJECT_ID", "p_test", "invalid_project_id"),
    ("PUBSUB_SUBSCRIPTION", None, "missing_configuration"),
    ("PUBSUB_SUBSCRIPTION", "\t", "empty_configuration"),
    ("PUBSUB_SUBSCRIPTION", "ab", "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "a" * 256, "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "1abc", "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "GooG-sub", "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "a/b", "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "projects/other-p/subscriptions/exec-sub", "invalid_subscription"),
    ("PUBSUB_SUBSCRIPTION", "projects/p-test/topics/exec-sub", "invalid_subscription"),
    ("PUBSUB_PUSH_AUDIENCE", "http://x", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://x/", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://x?y", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://x#z", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://x y", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://x\ty", "invalid_push_audience"),
    ("PUBSUB_PUSH_AUDIENCE", "https://user@x", "invalid_push_audience"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", None, "missing_configuration"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "", "empty_configuration"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "push@example.com", "invalid_push_service_account"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "p.iam.gserviceaccount.com", "invalid_push_service_account"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "@p.iam.gserviceaccount.com", "invalid_push_service_account"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "a@b@p.iam.gserviceaccount.com", "invalid_push_service_account"),
    ("PUBSUB_PUSH_SERVICE_ACCOUNT", "pü@p.iam.gserviceaccount.com", "invalid_push_service_account"),
    ("PUBSUB_PUSH_AUTH", "none", "invalid_push_auth"),
    ("FIRESTORE_CLAIMS_COLLECTION", "a/b", "invalid_collection"),
    ("FIRESTORE_CLAIMS_COLLECTION", "..", "invalid_collection"),
    ("FIRESTORE_CLAIMS_COLLECTION", "__x__", "invalid_collection"),
    ("FIRESTORE_FILES_COLLECTION", "é" * 751, "invalid_collection"),
    ("FIRESTORE_COLLECTION_PREFIX", "a/", "invalid_collection"),
    ("FIRESTORE_DATABASE", "x", "invalid_database"),
    ("FIRESTORE_DATABASE", "Default-db", "invalid_database"),
    ("GCP_CONTENT_BUCKET", "ab", "invalid_bucket_name"),
    ("GCP_CONTENT_BUCKET", "a..b", "invalid_bucket_name"),
    ("GCP_CONTENT_BUCKET", "goog-bucket", "invalid_bucket_name"),
    ("GCP_CONTENT_BUCKET", "-bucket", "invalid_bucket_name"),
    ("CONTENT_BUCKET", "Bucket", "invalid_bucket_name"),
    ("BACKEND_PUB", None, "missing_configuration"),
    ("BACKEND_PUB", " ", "empty_configuration"),
    ("BACKEND_PUB", "cGVt", "invalid_backend_pub"),
    ("BACKEND_KID", "a b", "invalid_backend_kid"),
    ("API_BASE_URL", None, "missing_configuration"),
    ("API_BASE_URL", "http://api", "invalid_base_url"),
    ("EXECUTION_ENGINES", "flow,flow", "invalid_engines"),
    ("EXECUTION_HTTP_HOSTS", ",", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "*", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "*.com", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "a.example,a.example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "https://a.example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "a.example:443", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "a.example.", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "A.example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "b*.a.example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "b..example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "bücher.example", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "[2001:db8::1]", "invalid_http_hosts"),
    ("EXECUTION_HTTP_HOSTS", "a." * 127 + "a", "invalid_http_hosts"),
    ("EXECUTION_ENGINES", "flow=a:b", "invalid_engines"),
    ("EXECUTION_ENGINES", "report", "invalid_engines"),
    ("EXECUTION_ENGINES", "report=a.b", "invalid_engines"),
    ("EXECUTION_ENGINES", "report=os:system;x", "invalid_engines"),
    ("EXECUTION_ENGINES", ",", "invalid_engines"),
    ("LOG_LEVEL", "loud", "invalid_log_level"),
    ("RUST_LOG", "info,hyper=warn", "invalid_log_level"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "", "forbidden_credential_setting"),
    ("PUBSUB_EMULATOR_HOST", "", "forbidden_endpoint_setting"),
]


@pytest.mark.parametrize(("name", "value", "code"), TEXTS)
def test_a_text_that_does_not_hold_is_refused_by_its_own_code(name: str, value: str | None, code: str) -> None:
    """Also BR-31: audiences with a slash at the end, a query, a fragment, or without TLS."""
    found = faults(WorkerSettings, worker_env(**{name: value}))
    assert [fault.code for fault in found] == [code]
    assert found[0].detail.startswith(name)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"GCP_QUEUE_PROCESS_TIMEOUT_SECS": "569"}, "invalid_process_timeout"),
        ({"EXECUTOR_TIMEOUT_SECS": "541"}, "invalid_process_timeout"),
        ({"GCP_QUEUE_ACK_DEADLINE_SECS": "599"}, "invalid_ack_deadline"),
        ({"GCP_QUEUE_CLAIM_STALE_AFTER_SECS": "89"}, "invalid_claim_stale_after"),
        ({"GCP_QUEUE_CLAIM_RETENTION_SECS": "3600", "GCP_QUEUE_REQUEST_TIMEOUT_SECS": "3600",
          "GCP_QUEUE_PROCESS_TIMEOUT_SECS": "1800"}, "invalid_claim_retention"),
        ({"GCP_QUEUE_CLAIM_STALE_AFTER_SECS": "571", "GCP_QUEUE_REQUEST_TIMEOUT_SECS": "3600",
          "GCP_QUEUE_PROCESS_TIMEOUT_SECS": "3570"}, "invalid_claim_stale_after"),
        ({"GCP_QUEUE_BROKER_MAX_ATTEMPTS": "10", "GCP_QUEUE_MAX_DELIVERY_ATTEMPTS": "6"}, "invalid_broker_attempts"),
    ],
)  # fmt: skip
def test_timeouts_that_do_not_agree_are_refused_with_a_value_that_would_pass(
    changes: dict[str, str], code: str
) -> None:
    found = faults(WorkerSettings, worker_env(**changes))
    assert [fault.code for fault in found] == [code]
    assert "would pass" in found[0].detail


def test_every_fault_is_reported_at_once_in_the_order_checked() -> None:
    """BR-54"""
    env = worker_env(
        HTTPS_PROXY="", GCP_QUEUE_WORKLOAD="x", GCP_PROJECT_ID="x", PUBSUB_PUSH_AUDIENCE="x", PORT="0",
        GCP_QUEUE_ACK_DEADLINE_SECS="x", GCP_QUEUE_CLAIM_HEARTBEAT_SECS="4", FIRESTORE_FILES_COLLECTION="/",
        GCP_QUEUE_MAX_DELIVERY_ATTEMPTS="0", FIRESTORE_DATABASE="x", LOG_LEVEL="x",
    )  # fmt: skip
    assert codes(WorkerSettings, env) == [
        "forbidden_credential_setting", "invalid_workload", "invalid_project_id", "invalid_push_audience",
        "number_out_of_range", "invalid_number", "number_out_of_range", "invalid_collection", "number_out_of_range",
        "invalid_database", "invalid_log_level",
    ]  # fmt: skip


def test_a_fault_is_one_line_that_names_variable_value_rule_and_a_value_that_passes() -> None:
    with pytest.raises(SettingsError) as raised:
        WorkerSettings.from_env(worker_env(PORT="80\n80"))
    (line,) = raised.value.lines
    assert line == (
        "invalid_number: PORT is '80\\n80', but must be digits only, without sign, blanks, underscores or leading "
        "zeros; for example PORT=8080"
    )


def test_a_key_in_the_wrong_variable_is_not_repeated() -> None:
    (fault,) = faults(WorkerSettings, worker_env(BACKEND_PUB=pair().private))
    assert pair().private[:20] not in fault.detail


def test_defaults_are_those_of_the_design() -> None:
    env = worker_env(
        EXECUTOR_TIMEOUT_SECS=None, GCP_QUEUE_ACK_DEADLINE_SECS=None, GCP_QUEUE_REQUEST_TIMEOUT_SECS=None,
        GCP_QUEUE_PROCESS_TIMEOUT_SECS=None, PUBSUB_PUSH_AUDIENCE=" ",
    )  # fmt: skip
    settings = WorkerSettings.from_env(env)
    assert settings == WorkerSettings(
        workload=Workload.EXECUTION,
        project_id="p-test",
        subscription="projects/p-test/subscriptions/exec-sub",
        push_service_account=settings.push_service_account,
        backend_pub=pair().public,
        api_base_url="https://api.example",
    )
    assert settings.process_timeout == timedelta(seconds=1140), "the run and ten minutes"
    assert settings.push_audience is None
    assert settings.broker_attempts is None
    assert settings.push_auth is PushAuth.PLATFORM


def test_the_process_timeout_defaults_to_the_end_of_a_short_request() -> None:
    settings = WorkerSettings.from_env(worker_env(GCP_QUEUE_PROCESS_TIMEOUT_SECS=None))
    assert settings.process_timeout == timedelta(seconds=570)


def test_texts_are_trimmed_and_words_may_be_in_any_case() -> None:
    env = worker_env(
        GCP_QUEUE_WORKLOAD=" Execution\n", PUBSUB_PUSH_AUDIENCE=f" {AUDIENCE} ", LOG_LEVEL=" WARN ",
        PUBSUB_PUSH_AUTH="In_Process", PUBSUB_SUBSCRIPTION=" projects/p-test/subscriptions/exec-sub ",
    )  # fmt: skip
    settings = WorkerSettings.from_env(env)
    assert settings.workload is Workload.EXECUTION
    assert settings.push_audience == AUDIENCE
    assert settings.push_auth is PushAuth.IN_PROCESS
    assert settings.subscription == "projects/p-test/subscriptions/exec-sub"
    assert settings.log_level is LogLevel.WARNING


def test_the_old_name_of_the_log_level_is_an_alias() -> None:
    assert WorkerSettings.from_env(worker_env(RUST_LOG="trace")).log_level is LogLevel.DEBUG
    assert WorkerSettings.from_env(worker_env(RUST_LOG="trace", LOG_LEVEL="error")).log_level is LogLevel.ERROR


def test_compilation_has_a_time_limit_of_its_own_name() -> None:
    env = worker_env(GCP_QUEUE_WORKLOAD="compilation", EXECUTOR_TIMEOUT_SECS=None, COMPILER_TIMEOUT_SECS="541")
    (fault,) = faults(WorkerSettings, env)
    assert fault.code == "invalid_process_timeout"
    settings = WorkerSettings.from_env({**env, "COMPILER_TIMEOUT_SECS": "100", "EXECUTOR_TIMEOUT_SECS": "junk"})
    assert settings.run_timeout == timedelta(seconds=100)
    assert settings.to_env()["COMPILER_TIMEOUT_SECS"] == "100"


@pytest.mark.parametrize("workload", ["file-tracking", "media-transformation"])
def test_workloads_of_object_events_need_their_bucket_and_no_job_key(workload: str) -> None:
    env = file_tracking_env(GCP_QUEUE_WORKLOAD=workload)
    assert WorkerSettings.from_env(env).content_bucket == "content-bkt"
    del env["GCP_CONTENT_BUCKET"]
    assert codes(WorkerSettings, env) == ["missing_configuration"]
    assert WorkerSettings.from_env({**env, "CONTENT_BUCKET": "other-bkt"}).content_bucket == "other-bkt"


def test_a_batch_of_any_size_is_clamped_to_what_a_callback_carries() -> None:
    assert WorkerSettings.from_env(worker_env(EXECUTOR_MAX_BATCH_SIZE="0")).batch_size == 1
    assert WorkerSettings.from_env(worker_env(EXECUTOR_MAX_BATCH_SIZE="5000")).batch_size == 1000


def test_what_follows_from_the_timeouts_is_derived() -> None:
    settings = WorkerSettings.from_env(worker_env())
    assert settings.run_lease == timedelta(seconds=150)
    assert settings.lease_renewal == timedelta(seconds=50)
    assert settings.park_budget == timedelta(seconds=180)
    assert settings.cut_off == 5
    assert WorkerSettings.from_env(worker_env(GCP_QUEUE_MAX_DELIVERY_ATTEMPTS="9")).cut_off == 9
    assert WorkerSettings.from_env(worker_env(GCP_QUEUE_BROKER_MAX_ATTEMPTS="20")).cut_off == 20


def test_what_a_worker_knows_of_its_timeouts_can_be_checked_and_advised_on() -> None:
    facts = WorkerSettings.from_env(worker_env()).alignment()
    assert (facts.request, facts.ack, facts.process, facts.run, facts.broker_env) == (600, 600, 570, 540, 0)
    assert check(facts) == []
    assert advise(facts) == []
    longer = WorkerSettings.from_env(
        worker_env(GCP_QUEUE_REQUEST_TIMEOUT_SECS="3600", GCP_QUEUE_PROCESS_TIMEOUT_SECS="601")
    )
    assert [found.id for found in advise(longer.alignment())] == ["T06"], "the broker may hang up while it works"


def test_settings_that_infrastructure_builds_are_checked_like_those_of_a_start() -> None:
    settings = WorkerSettings(
        workload=Workload.EXECUTION, project_id="p-test", subscription="exec-sub",
        push_service_account="push@p-test.iam.gserviceaccount.com", backend_pub=pair().public,
        api_base_url="https://api.example", heartbeat=timedelta(seconds=7.5),
    )  # fmt: skip
    with pytest.raises(SettingsError, match=r"GCP_QUEUE_CLAIM_HEARTBEAT_SECS is '7\.5'"):
        settings.validated()
