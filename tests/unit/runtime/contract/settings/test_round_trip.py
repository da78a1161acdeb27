"""What is rendered is read back as the same object, and nothing that an environment may hold surprises the reader."""

from __future__ import annotations

import string
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.derivation import GivenTimeouts, derive
from runtime.contract.settings.api import ApiSettings
from runtime.contract.settings.executor import ExecutorSettings
from runtime.contract.settings.faults import SettingsError
from runtime.contract.settings.tracing import NO_TRACES, TracingSettings
from runtime.contract.settings.verifying_keys import PreviousKey
from runtime.contract.settings.words import ExecutionBackend, LogLevel, PushAuth, Workload
from runtime.contract.settings.worker import WorkerSettings
from runtime.contract.settings.worker_sql import SqlSettings
from tests.support.job_keys import pair
from tests.support.settings import ReadsEnvironment, api_env, executor_env, file_tracking_env, worker_env

PAIR = pair()
SETTLE = timedelta(seconds=30)

words = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=20).map(lambda text: f"x{text}x")
project_ids = words.map(lambda word: f"proj-{word}"[:30])
addresses = words.map(lambda word: f"https://{word}.example")
accounts = words.map(lambda word: f"{word}@p-test.iam.gserviceaccount.com")
collections = st.text(string.ascii_letters + string.digits + "-.", min_size=3, max_size=30)
host_lists = st.none() | st.lists(
    st.from_regex(r"(\*\.[a-z]{1,9}\.)?[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z]{1,9}){0,3}", fullmatch=True),
    min_size=1,
    unique=True,
).map(tuple)
engine_maps = st.dictionaries(
    words.map(lambda word: word.rstrip("-")), st.sampled_from(["a:b", "acme.jobs:run", "_x.y_1:Z"]), max_size=3
).map(lambda entries: {"flow": "", **entries})
hashes = st.dictionaries(words, st.text("0123456789abcdef", min_size=64, max_size=64), max_size=3)
levels = st.sampled_from(LogLevel)
previous_keys = st.none() | st.builds(PreviousKey, st.just(pair("second").public), words.map(lambda word: f"{word}-0"))
"""Of an id that no current key has."""


def seconds(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda count: timedelta(seconds=count))


def milliseconds(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda count: timedelta(milliseconds=count))


callbacks: dict[str, st.SearchStrategy[Any]] = {
    "batch_interval": milliseconds(0, 2**31 - 1),
    "batch_size": st.integers(1, 1000),
    "callback_timeout": milliseconds(1, 2**31 - 1),
    "callback_retries": st.integers(0, 2**32 - 1),
}
store: dict[str, st.SearchStrategy[Any]] = {
    "database": st.sampled_from(["(default)", "runs-eu"]),
    "collection_prefix": st.sampled_from(["", "blue-", "__", "a.b"]),
    "store_retries": st.integers(0, 20),
}

tracings = st.just(NO_TRACES) | st.builds(
    TracingSettings,
    endpoint=words.map(lambda word: f"https://{word}.example:4317"),
    timeout=milliseconds(1, 60_000),
    required=st.booleans(),
)


@st.composite
def worker_settings(draw: st.DrawFn) -> WorkerSettings:
    request = draw(st.integers(61, 3600))
    given_timeouts = GivenTimeouts(
        request=request, run=draw(st.integers(1, request - 60)), heartbeat=draw(st.integers(5, 190)),
        ceiling=draw(st.integers(1, 5)),
    )  # fmt: skip
    facts = derive(given_timeouts)
    workload = draw(st.sampled_from(Workload))
    project_id = draw(project_ids)
    tracks_files = workload is Workload.FILE_TRACKING

    def derived(name: str) -> timedelta:
        value = facts.value(name)
        assert isinstance(value, int)
        return timedelta(seconds=value)

    return WorkerSettings(
        workload=workload,
        project_id=project_id,
        subscription=f"projects/{project_id}/subscriptions/{draw(words)}",
        push_audience=draw(st.none() | addresses),
        push_service_account=draw(accounts),
        push_auth=draw(st.sampled_from(PushAuth)),
        key_grace=draw(seconds(0, 21600)),
        port=draw(st.integers(1, 65535)),
        ack_deadline=derived("ack_env"),
        request_timeout=derived("request_env"),
        run_timeout=derived("run"),
        process_timeout=derived("process"),
        heartbeat=derived("heartbeat"),
        stale_after=derived("stale_after"),
        claim_retention=derived("claim_retention"),
        claims_collection=draw(collections),
        files_collection=draw(collections),
        content_bucket="content-bkt" if workload.reads_object_events else draw(st.sampled_from([None, "content-bkt"])),
        sql=_SQL if tracks_files else None,
        max_attempts=given_timeouts.ceiling,
        broker_attempts=draw(st.sampled_from([None, facts.broker_env])),
        backend_pub=PAIR.public,
        backend_kid=draw(words),
        previous_key=draw(previous_keys),
        api_base_url=draw(addresses),
        engines=draw(engine_maps),
        http_hosts=draw(host_lists),
        run_memory=draw(st.integers(0, 32 * 1024)),
        tracing=draw(tracings),
        log_level=draw(levels),
        **draw(st.fixed_dictionaries(store)),
        **draw(st.fixed_dictionaries(callbacks)),
    )


_SQL = SqlSettings(
    host="10.0.0.3", database="usage", user="files@p-test.iam",
    server_ca="-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
)  # fmt: skip

given_api = st.builds(
    ApiSettings,
    project_id=st.just("p-test"),
    base_url=addresses,
    topic=words.map(lambda word: f"projects/p-test/topics/{word}"),
    backend_key=st.just(PAIR.private),
    backend_pub=st.just(PAIR.public),
    backend_kid=words,
    previous_key=previous_keys,
    tick_service_account=accounts,
    dead_letter_service_account=st.none() | accounts,
    port=st.integers(1, 65535),
    request_timeout=seconds(60, 3600),
    execution_backend=st.sampled_from(ExecutionBackend),
    executor_url=addresses,
    run_lease=seconds(15, 3600),
    job_token_life=seconds(600, 2_000_000),
    run_timeout_max=seconds(1, 3570),
    executor_timeout_max=seconds(1, 3570),
    max_attempts=st.integers(1, 100),
    max_queue_age=seconds(60, 2_678_400),
    run_retention=seconds(3600, 31_536_000),
    key_hashes=hashes,
    engines=engine_maps,
    tracing=tracings,
    log_level=levels,
    **store,
)
api_settings = given_api.map(
    lambda api: replace(api, executor_timeout_max=min(api.executor_timeout_max, api.request_timeout - SETTLE))
)
given_executor = st.builds(
    ExecutorSettings,
    backend_pub=st.just(PAIR.public),
    backend_kid=words,
    previous_key=previous_keys,
    port=st.integers(1, 65535),
    run_timeout=seconds(1, 3570),
    engines=engine_maps,
    http_hosts=host_lists,
    run_memory=st.integers(0, 32 * 1024),
    project_id=st.none() | project_ids,
    tracing=tracings,
    log_level=levels,
    **callbacks,
)
executor_settings = given_executor.map(
    lambda executor: executor._replace(tracing=NO_TRACES) if executor.project_id is None else executor
)


@given(worker_settings())
def test_a_worker_reads_back_what_was_rendered_for_it(written: WorkerSettings) -> None:
    assert WorkerSettings.from_env(written.to_env()) == written


@given(api_settings)
def test_the_api_reads_back_what_was_rendered_for_it(written: ApiSettings) -> None:
    assert ApiSettings.from_env(written.to_env()) == written


@given(executor_settings)
def test_the_executor_reads_back_what_was_rendered_for_it(written: ExecutorSettings) -> None:
    assert ExecutorSettings.from_env(written.to_env()) == written


KINDS: list[tuple[ReadsEnvironment, dict[str, str]]] = [
    (WorkerSettings, worker_env(GCP_QUEUE_BROKER_MAX_ATTEMPTS="20")),
    (WorkerSettings, file_tracking_env()),
    (ApiSettings, api_env()),
    (ExecutorSettings, executor_env()),
]
VARIABLES = sorted(
    {name for _, env in KINDS for name in env}
    | set(ExecutorSettings(backend_pub="", previous_key=PreviousKey("", "")).to_env())
)
values = st.text(max_size=40) | st.sampled_from(
    ["9" * 5000, "\x00", "\udcff", "-0", "1" * 21, "=", ",", "https://[", "10.0.0.256", "AAAA", "goog"]
)


@pytest.mark.parametrize(("kind", "good"), KINDS, ids=["worker", "file-tracking", "api", "executor"])
@given(changes=st.dictionaries(st.sampled_from(VARIABLES), values, max_size=6))
def test_no_environment_raises_anything_but_its_faults(
    kind: ReadsEnvironment, good: dict[str, str], changes: dict[str, str]
) -> None:
    for line in start(kind, {**good, **changes}):
        assert "\n" not in line
        assert line.isascii(), "an operator's terminal shows what is there, not what it looks like"


def start(kind: ReadsEnvironment, env: dict[str, str]) -> tuple[str, ...]:
    """What a start would print; nothing where it goes on."""
    try:
        kind.from_env(env)
    except SettingsError as error:
        return error.lines
    return ()
