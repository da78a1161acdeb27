"""The stand-in provider as the real engine calls it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

import grpc
import pytest
from google.protobuf import empty_pb2
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2
from pulumi.runtime.proto import provider_pb2 as rpc

from sandbox.engine.plugin.servicer import StandIn
from sandbox.engine.wire import plain_inputs, wrapped_outputs
from sandbox.provider.products.private_services import CONNECTION, GLOBAL_ADDRESS
from sandbox.provider.unknown import UNKNOWN, is_unknown
from sandbox.world import ACCOUNT, NETWORK, SECRET, SECRET_VERSION, SERVICE, SUBSCRIPTION, TOPIC, World
from tests.support.provider import CONFIG, IMAGE, PROJECT, SERVICE_INPUTS, changed, new_world

NUMBER_UNKNOWN = "3eeb2bf0-c639-47a8-9e75-3b44932eb421"


class Refused(Exception):
    """What reaches the engine as a refusal."""


class Context:
    """The part of gRPC's context that a refusal needs."""

    def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        raise Refused(text)


CONTEXT = cast("grpc.ServicerContext", Context())


class Plugin:
    """Calls of one resource's life; inputs are plain, as a program gives them."""

    def __init__(self, world_dir: Path) -> None:
        self.world_dir = world_dir
        new_world(world_dir).save()
        self.provider = StandIn(world_dir, "1.0.0")
        self.provider.Configure(rpc.ConfigureRequest(args=wrapped_outputs(CONFIG, ())), CONTEXT)

    def check(self, type_: str, inputs: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        request = rpc.CheckRequest(urn=urn(type_), type=type_, name="it", news=wrapped_outputs(inputs, ()))
        answer = self.provider.Check(request, CONTEXT)
        return plain_inputs(answer.inputs)[0], [one.property for one in answer.failures]

    def create(
        self,
        type_: str,
        inputs: dict[str, Any],
        *,
        preview: bool = False,
        secrets: tuple[str, ...] = (),
        place: str = "it",
    ) -> rpc.CreateResponse:
        checked, failures = self.check(type_, inputs)
        assert failures == []
        properties = wrapped_outputs(checked, secrets)
        return self.provider.Create(
            rpc.CreateRequest(urn=urn(type_, place), type=type_, name=place, properties=properties, preview=preview),
            CONTEXT,
        )

    def diff(self, type_: str, id_: str, old: dict[str, Any], new: dict[str, Any]) -> rpc.DiffResponse:
        before, after = self.check(type_, old)[0], self.check(type_, new)[0]
        structs = {"old_inputs": wrapped_outputs(before, ()), "news": wrapped_outputs(after, ())}
        return self.provider.Diff(rpc.DiffRequest(id=id_, urn=urn(type_), type=type_, name="it", **structs), CONTEXT)

    def update(self, type_: str, id_: str, new: dict[str, Any], *, preview: bool = False) -> dict[str, Any]:
        news = wrapped_outputs(self.check(type_, new)[0], ())
        request = rpc.UpdateRequest(id=id_, urn=urn(type_), type=type_, name="it", news=news, preview=preview)
        return plain_inputs(self.provider.Update(request, CONTEXT).properties)[0]

    def read(self, type_: str, id_: str, inputs: Struct | None = None) -> rpc.ReadResponse:
        return self.provider.Read(rpc.ReadRequest(id=id_, urn=urn(type_), type=type_, inputs=inputs), CONTEXT)

    def delete(self, type_: str, id_: str) -> None:
        self.provider.Delete(rpc.DeleteRequest(id=id_, urn=urn(type_), type=type_), CONTEXT)

    @property
    def world(self) -> World:
        world = World.load(self.world_dir)
        assert world is not None
        return world


def urn(type_: str, place: str = "it") -> str:
    return f"urn:pulumi:test::holdfast::{type_}::{place}"


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def test_a_creation_is_in_the_saved_world_and_answers_inputs_and_computed_outputs(plugin: Plugin) -> None:
    answer = plugin.create(TOPIC, {"name": "jobs"})

    assert answer.id == f"projects/{PROJECT}/topics/jobs"
    assert plain_inputs(answer.properties)[0]["project"] == PROJECT
    assert plugin.world.find(TOPIC, "jobs") is not None


def test_a_preview_changes_nothing_and_leaves_what_is_computed_unknown(plugin: Plugin) -> None:
    answer = plugin.create(ACCOUNT, {"accountId": "worker"}, preview=True)
    outputs = plain_inputs(answer.properties)[0]

    assert answer.id == ""
    assert {name for name, value in outputs.items() if is_unknown(value)} == {"name", "email", "member", "uniqueId"}
    assert outputs["accountId"] == "worker"
    assert len(plugin.world) == 0


def test_what_is_not_known_yet_is_not_refused_and_the_rest_still_is(plugin: Plugin) -> None:
    unknown = {"name": "push", "topic": UNKNOWN, "ackDeadlineSeconds": NUMBER_UNKNOWN}

    given, failures = plugin.check(SUBSCRIPTION, unknown)
    assert failures == []
    assert given == {**unknown, "project": PROJECT}, "the platform's defaults are no inputs"
    outputs = plain_inputs(plugin.create(SUBSCRIPTION, unknown, preview=True).properties)[0]
    assert outputs["messageRetentionDuration"] == "604800s"
    assert plugin.check(SUBSCRIPTION, {**unknown, "ackDeadlineSeconds": 601})[1] == ["ackDeadlineSeconds"]
    assert plugin.check(SUBSCRIPTION, {**unknown, "acDeadlineSeconds": 60})[1] == ["acDeadlineSeconds"]


def test_beside_a_structure_that_is_not_known_nothing_is_filled_in(plugin: Plugin) -> None:
    inputs = {**SERVICE_INPUTS, "template": {"containers": UNKNOWN}}
    filled, failures = plugin.check(SERVICE, inputs)

    assert failures == []
    assert filled["template"] == {"containers": UNKNOWN}
    answer = plugin.create(SERVICE, inputs, preview=True)
    assert plain_inputs(answer.properties)[0]["template"] == {"containers": UNKNOWN}


def test_a_difference_names_the_inputs_and_what_replaces(plugin: Plugin) -> None:
    id_ = plugin.create(SERVICE, SERVICE_INPUTS).id
    same = plugin.diff(SERVICE, id_, SERVICE_INPUTS, SERVICE_INPUTS)
    timeout = plugin.diff(SERVICE, id_, SERVICE_INPUTS, changed(SERVICE_INPUTS, "template.timeout", "60s"))
    renamed = plugin.diff(SERVICE, id_, SERVICE_INPUTS, {**SERVICE_INPUTS, "name": "other"})
    moved = plugin.diff(SERVICE, id_, SERVICE_INPUTS, {**SERVICE_INPUTS, "location": "europe-west4"})

    assert (same.changes, list(same.diffs)) == (rpc.DiffResponse.DIFF_NONE, [])
    assert (list(timeout.diffs), list(timeout.replaces)) == (["template"], [])
    assert (list(renamed.replaces), renamed.deleteBeforeReplace) == (["name"], False)
    assert (list(moved.replaces), moved.deleteBeforeReplace) == (["location"], True), "its name is taken"


def test_an_update_keeps_the_id_and_its_preview_leaves_open_what_will_change(plugin: Plugin) -> None:
    id_ = plugin.create(SERVICE, SERVICE_INPUTS).id
    new = changed(SERVICE_INPUTS, "template.timeout", "60s")

    previewed = plugin.update(SERVICE, id_, new, preview=True)
    assert {name for name, value in previewed.items() if is_unknown(value)} == {
        "latestReadyRevision",
        "latestCreatedRevision",
    }
    assert plugin.update(SERVICE, id_, new)["latestReadyRevision"] == "worker-00002"
    resource = plugin.world.find(SERVICE, "worker")
    assert resource is not None
    assert resource.inputs["template"]["timeout"] == "60s"


def test_a_secret_leaves_the_engine_only_marked_and_never_reaches_the_disk(plugin: Plugin) -> None:
    secret = plugin.create(SECRET, {"secretId": "key", "replication": {"auto": {}}}).id
    answer = plugin.create(SECRET_VERSION, {"secret": secret, "secretData": "sesame"}, secrets=("secretData",))

    assert plain_inputs(answer.properties)[1] == {"secretData"}
    assert "sesame" not in (plugin.world_dir / "world.json").read_text()
    inputs = wrapped_outputs({"secret": secret, "secretData": "sesame"}, ("secretData",))
    values, marked = plain_inputs(plugin.read(SECRET_VERSION, answer.id, inputs).inputs)
    assert values["secretData"] == "sesame"
    assert marked == {"secretData"}


def test_a_service_may_name_a_secret_of_an_earlier_run(plugin: Plugin) -> None:
    secret = plugin.create(SECRET, {"secretId": "key", "replication": {"auto": {}}}).id
    plugin.create(SECRET_VERSION, {"secret": secret, "secretData": "sesame"}, secrets=("secretData",))
    reference = {"name": "KEY", "valueSource": {"secretKeyRef": {"secret": "key", "version": "1"}}}

    service = changed(SERVICE_INPUTS, "template.containers", [{"image": IMAGE, "envs": [reference]}])
    assert plugin.create(SERVICE, service).id.endswith("/services/worker")


def test_reading_tells_what_is_there_now(plugin: Plugin) -> None:
    id_ = plugin.create(TOPIC, {"name": "jobs", "labels": {"a": "1"}}).id
    world = plugin.world
    world.remove(TOPIC, "jobs")
    world.save()

    assert plugin.read(TOPIC, id_).id == ""


def test_the_platforms_refusals_reach_the_engine(plugin: Plugin) -> None:
    id_ = plugin.create(SERVICE, SERVICE_INPUTS).id

    with pytest.raises(Refused, match="deletionProtection is true"):
        plugin.delete(SERVICE, id_)
    with pytest.raises(Refused, match="already exists"):
        plugin.create(SERVICE, SERVICE_INPUTS, place="elsewhere")
    with pytest.raises(Refused, match="is gone from the world"):
        plugin.update(SERVICE, "projects/other", SERVICE_INPUTS)
    with pytest.raises(Refused, match="does not answer this function"):
        plugin.provider.Invoke(rpc.InvokeRequest(tok="gcp:x/y:z"), CONTEXT)


def test_a_peering_that_was_left_behind_keeps_its_network(plugin: Plugin) -> None:
    network = plugin.create(NETWORK, {"name": "inside"}).id
    addresses = {
        "name": "range", "purpose": "VPC_PEERING", "addressType": "INTERNAL", "prefixLength": 16, "network": network,
    }  # fmt: skip
    plugin.create(GLOBAL_ADDRESS, addresses)
    connection = {
        "network": network,
        "service": "servicenetworking.googleapis.com",
        "reservedPeeringRanges": ["range"],
        "deletionPolicy": "ABANDON",
    }
    plugin.delete(CONNECTION, plugin.create(CONNECTION, connection).id)

    with pytest.raises(Refused, match=r"the peering of servicenetworking\.googleapis\.com still uses it"):
        plugin.delete(NETWORK, network)


def test_what_a_killed_engine_had_created_is_taken_over_by_the_same_place_of_the_program(plugin: Plugin) -> None:
    first = plugin.create(TOPIC, {"name": "jobs"})
    again = plugin.create(TOPIC, {"name": "jobs", "labels": {"a": "1"}})

    assert again.id == first.id
    (topic,) = plugin.world.of_type(TOPIC)
    assert topic.inputs["labels"] == {"a": "1"}


def test_deleting_what_is_gone_succeeds(plugin: Plugin) -> None:
    id_ = plugin.create(TOPIC, {"name": "jobs"}).id
    plugin.delete(TOPIC, id_)
    plugin.delete(TOPIC, id_)
    assert len(plugin.world) == 0


def test_without_a_world_nothing_is_made_up(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no world"):
        StandIn(tmp_path, "1").Invoke(rpc.InvokeRequest(tok="gcp:organizations/getProject:getProject"), CONTEXT)


def test_an_engine_that_did_not_start_it_may_attach(plugin: Plugin) -> None:
    plugin.provider.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1"), CONTEXT)
    assert plugin.provider.GetPluginInfo(empty_pb2.Empty(), CONTEXT).version == "1.0.0"


def test_functions_are_answered_from_the_world(plugin: Plugin) -> None:
    answer = plugin.provider.Invoke(rpc.InvokeRequest(tok="gcp:organizations/getProject:getProject"), CONTEXT)

    assert plain_inputs(getattr(answer, "return"))[0]["number"] == plugin.world.number
    assert plugin.provider.GetPluginInfo(empty_pb2.Empty(), CONTEXT).version == "1.0.0"


def test_reading_tells_what_was_changed_behind_the_engines_back(plugin: Plugin) -> None:
    id_ = plugin.create(TOPIC, {"name": "jobs", "labels": {"a": "1"}}).id
    world = plugin.world
    topic = world.find(TOPIC, "jobs")
    assert topic is not None
    drift = {"labels": {"a": "2"}}
    world.put(replace(topic, inputs={**topic.inputs, **drift}, outputs={**topic.outputs, **drift}))
    world.save()

    answer = plugin.read(TOPIC, id_)
    assert plain_inputs(answer.inputs)[0]["labels"] == plain_inputs(answer.properties)[0]["labels"] == {"a": "2"}
    read = plain_inputs(answer.inputs)[0]
    assert list(plugin.diff(TOPIC, id_, read, {"name": "jobs", "labels": {"a": "1"}}).diffs) == ["labels"]


def test_a_type_that_the_sdk_does_not_have_is_refused_by_name(plugin: Plugin) -> None:
    with pytest.raises(Refused, match="gcp:pubsub/tropic:Tropic is not in the installed pulumi_gcp"):
        plugin.check("gcp:pubsub/tropic:Tropic", {})
    with pytest.raises(Refused, match="use the IAMMember form"):
        plugin.check("gcp:pubsub/topicIAMBinding:TopicIAMBinding", {"topic": "jobs"})


def test_a_type_that_nothing_acts_on_is_replaced_where_its_name_or_place_changes(plugin: Plugin) -> None:
    metric = "gcp:logging/metric:Metric"
    inputs = {"name": "faults", "filter": "severity>=ERROR"}
    id_ = plugin.create(metric, inputs).id

    assert list(plugin.diff(metric, id_, inputs, {**inputs, "name": "others"}).replaces) == ["name"]
    assert list(plugin.diff(metric, id_, inputs, {**inputs, "project": "p-other"}).replaces) == ["project"]
    assert list(plugin.diff(metric, id_, inputs, {**inputs, "filter": "severity>=INFO"}).replaces) == []


def test_the_storage_agent_is_told_for_this_project_only(plugin: Plugin) -> None:
    """BR-129."""
    token = "gcp:storage/getProjectServiceAccount:getProjectServiceAccount"
    answer = getattr(plugin.provider.Invoke(rpc.InvokeRequest(tok=token), CONTEXT), "return")

    agent = f"service-{plugin.world.number}@gs-project-accounts.iam.gserviceaccount.com"
    assert plain_inputs(answer)[0]["member"] == f"serviceAccount:{agent}"
    other = wrapped_outputs({"project": "p-other"}, ())
    with pytest.raises(Refused, match="p-other is not this world's project"):
        plugin.provider.Invoke(rpc.InvokeRequest(tok=token, args=other), CONTEXT)
