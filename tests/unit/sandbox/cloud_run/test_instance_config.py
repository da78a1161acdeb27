from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sandbox.cloud_run.faults import Action, Fault, Point
from sandbox.cloud_run.instance_config import InstanceConfig
from sandbox.network import Address, Hosts
from sandbox.sql.documents import StoreAccess

TEXTS = st.text(max_size=8)
FAULTS = st.builds(
    Fault,
    point=st.sampled_from([point for point in Point if point is not Point.CLOCK]),
    action=st.sampled_from([action for action in Action if action is not Action.SKEW]),
    match=TEXTS,
    nth=st.integers(0, 9),
    seconds=st.floats(0, 9),
)
INDEXES = st.lists(
    st.tuples(TEXTS, st.lists(st.tuples(TEXTS, st.sampled_from(["ASCENDING", "DESCENDING"]))).map(tuple))
).map(tuple)
CONFIGS = st.builds(
    InstanceConfig,
    role=TEXTS,
    service=TEXTS,
    instance=TEXTS,
    account=TEXTS,
    hosts=st.dictionaries(TEXTS, st.builds(Address, port=st.integers(0, 65535), path=TEXTS)).map(Hosts),
    postgres_dsn=TEXTS,
    pubsub_port=st.integers(0, 65535),
    store=st.builds(StoreAccess, st.lists(TEXTS).map(tuple), st.none() | TEXTS),
    indexes=INDEXES,
    faults=st.lists(FAULTS, max_size=3).map(tuple),
    code_paths=st.lists(TEXTS).map(tuple),
)


@given(CONFIGS)
def test_what_an_instance_is_told_is_what_it_hears(config: InstanceConfig) -> None:
    assert InstanceConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_indexes_are_named_without_the_prefix_of_the_collections_they_belong_to() -> None:
    fields = (("state", "ASCENDING"), ("created_at", "DESCENDING"))
    config = InstanceConfig(
        role="api", service="api", instance="1", account="a", indexes=(("dev_runs", fields), ("prod_runs", fields))
    )
    assert config.logical_indexes("dev_") == (("runs", fields),)


def test_the_database_is_not_shown() -> None:
    config = InstanceConfig(role="api", service="api", instance="1", account="a", postgres_dsn="postgresql://hidden")
    assert "hidden" not in repr(config)
