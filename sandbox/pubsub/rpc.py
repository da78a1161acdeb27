"""Google's gRPC methods: `google.pubsub.v1.Publisher` and `Subscriber`, through generic handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types

from runtime.contract.errors import Decision, HoldfastError
from runtime.ports.clock import Clock
from sandbox.pubsub.access import CONSUME, PUBLISH, VIEW, Access, PermissionMissing, Unauthenticated
from sandbox.pubsub.faults import Effect, Step
from sandbox.pubsub.message import InvalidMessage
from sandbox.pubsub.state import ACK_ID, Broker, Feed, NotDeclared
from sandbox.pubsub.wire import draft_of, received, subscription_resource, topic_resource
from sandbox.world import Kind, Target, short_name

if TYPE_CHECKING:
    from sandbox.pubsub.server import PubSub

    RpcHandler = grpc.GenericRpcHandler[Any, Any]
else:
    RpcHandler = grpc.GenericRpcHandler

PULL_SECONDS: Final = 20.0
"""How long a pull without messages waits for one before it answers empty."""
ACK_DEADLINE_MAX: Final = 600
"""Pub/Sub: longest deadline that ModifyAckDeadline sets, seconds."""
_SERVICE: Final = "/google.pubsub.v1."

Context = grpc.aio.ServicerContext[Any, Any]
Call = Callable[[Any, str], Awaitable[Any]]
"""(request, caller's member string) -> response."""


class Refused(HoldfastError):
    """A call that is answered with a status of its own.

    Args:
        message: see HoldfastError.
        status: what gRPC says.
    """

    code = "call_refused"

    def __init__(self, message: str, status: grpc.StatusCode) -> None:
        super().__init__(message)
        self.status = status


_STATUSES: Final[tuple[tuple[type[HoldfastError], grpc.StatusCode], ...]] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (PermissionMissing, grpc.StatusCode.PERMISSION_DENIED),
    (NotDeclared, grpc.StatusCode.NOT_FOUND),
    (InvalidMessage, grpc.StatusCode.INVALID_ARGUMENT),
)


def status_of(error: HoldfastError) -> grpc.StatusCode:
    """The gRPC status that tells a caller about an error."""
    if isinstance(error, Refused):
        return error.status
    found = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    if found is not None:
        return found
    return grpc.StatusCode.UNAVAILABLE if error.decision is Decision.RETRY else grpc.StatusCode.INTERNAL


class Methods(RpcHandler):
    """The methods that exist; every other one answers UNIMPLEMENTED and says why.

    Args:
        service: does the work.
        access: knows the callers.
        clock: waits.
    """

    def __init__(self, service: PubSub, access: Access, clock: Clock) -> None:
        self._service = service
        self._access = access
        self._clock = clock
        self._methods = {
            "Publisher/Publish": self._unary(types.PublishRequest, self._publish),
            "Publisher/GetTopic": self._unary(types.GetTopicRequest, self._get_topic),
            "Publisher/ListTopics": self._unary(types.ListTopicsRequest, self._list_topics),
            "Subscriber/Pull": self._unary(types.PullRequest, self._pull),
            "Subscriber/Acknowledge": self._unary(types.AcknowledgeRequest, self._acknowledge),
            "Subscriber/ModifyAckDeadline": self._unary(types.ModifyAckDeadlineRequest, self._modify_ack_deadline),
            "Subscriber/GetSubscription": self._unary(types.GetSubscriptionRequest, self._get_subscription),
            "Subscriber/ListSubscriptions": self._unary(types.ListSubscriptionsRequest, self._list_subscriptions),
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call; see grpc.GenericRpcHandler."""
        method = handler_call_details.method
        if not method.startswith(_SERVICE):
            return None
        return self._methods.get(method.removeprefix(_SERVICE)) or _unimplemented(method)

    def _unary(self, request_type: Any, call: Call) -> Any:
        async def answer(request: Any, context: Context) -> Any:
            try:
                caller = self._access.caller(context.invocation_metadata() or ())
                return await call(request, caller)
            except HoldfastError as error:
                await context.abort(status_of(error), str(error))

        return grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request_type.pb().FromString, response_serializer=_serialized
        )

    @property
    def _broker(self) -> Broker:
        return self._service.broker

    def _consumed(self, name: str, caller: str) -> Feed:
        """A subscription whose messages the caller may take."""
        feed = self._broker.feed(name)
        self._access.require(caller, CONSUME, Target(Kind.SUBSCRIPTION, short_name(name)))
        return feed

    async def _publish(self, request: Any, caller: str) -> Any:
        self._broker.topic(request.topic)
        self._access.require(caller, PUBLISH, Target(Kind.TOPIC, short_name(request.topic)))
        drafts = [draft_of(message) for message in request.messages]
        fault = self._service.faults.next(Step.PUBLISH, request.topic)
        effect = fault.effect if fault is not None else None
        if fault is not None and effect is Effect.ERROR:
            raise Refused("refused as ordered", _grpc_status(fault.status))
        if fault is not None and effect is Effect.DELAY:
            await self._clock.sleep(fault.seconds)
        ids = await self._service.publish(request.topic, drafts)
        if effect is Effect.DUPLICATE:
            await self._service.publish(request.topic, drafts)
        if effect is Effect.DROP_RESPONSE:
            raise Refused("published, and the answer was dropped as ordered", grpc.StatusCode.UNAVAILABLE)
        return types.PublishResponse.pb()(message_ids=ids)

    async def _get_topic(self, request: Any, caller: str) -> Any:
        labels = self._broker.topic(request.topic)
        self._access.require(caller, VIEW, Target(Kind.TOPIC, short_name(request.topic)))
        return topic_resource(request.topic, labels)

    async def _list_topics(self, request: Any, caller: str) -> Any:
        self._broker.sync()
        self._access.require(caller, VIEW, Target(Kind.PROJECT, short_name(request.project)))
        found = sorted(self._broker.declared.topics.items())
        return types.ListTopicsResponse.pb()(topics=[topic_resource(name, labels) for name, labels in found])

    async def _get_subscription(self, request: Any, caller: str) -> Any:
        feed = self._broker.feed(request.subscription)
        self._access.require(caller, VIEW, Target(Kind.SUBSCRIPTION, short_name(request.subscription)))
        return subscription_resource(feed.subscription)

    async def _list_subscriptions(self, request: Any, caller: str) -> Any:
        self._broker.sync()
        self._access.require(caller, VIEW, Target(Kind.PROJECT, short_name(request.project)))
        found = sorted(self._broker, key=lambda feed: feed.subscription.name)
        listed = [subscription_resource(feed.subscription) for feed in found]
        return types.ListSubscriptionsResponse.pb()(subscriptions=listed)

    async def _pull(self, request: Any, caller: str) -> Any:
        feed = self._consumed(request.subscription, caller)
        if feed.subscription.push is not None or feed.subscription.exported:
            raise Refused(
                f"{request.subscription} pushes or exports its messages; pull from one that does not",
                grpc.StatusCode.FAILED_PRECONDITION,
            )
        if request.max_messages < 1:
            raise Refused("max_messages is 0; ask for 1 or more", grpc.StatusCode.INVALID_ARGUMENT)
        until = self._clock.monotonic() + (0 if request.return_immediately else PULL_SECONDS)
        while True:
            feed.changed.clear()
            leases = self._broker.take(feed, request.max_messages)
            left = until - self._clock.monotonic()
            if leases or left <= 0:
                taken = [received(feed.subscription, lease) for lease in leases]
                return types.PullResponse.pb()(received_messages=taken)
            await self._changed(feed, left)
            feed = self._consumed(request.subscription, caller)

    async def _changed(self, feed: Feed, seconds: float) -> None:
        moment = feed.backlog.next_moment()
        wait = seconds if moment is None else min(seconds, moment - self._clock.monotonic())
        try:
            async with self._clock.timeout(wait):
                await feed.changed.wait()
        except TimeoutError:
            return

    async def _acknowledge(self, request: Any, caller: str) -> Any:
        feed = self._consumed(request.subscription, caller)
        _check_ack_ids(request.ack_ids)
        await self._service.settle(feed, request.ack_ids)
        return Empty()

    async def _modify_ack_deadline(self, request: Any, caller: str) -> Any:
        feed = self._consumed(request.subscription, caller)
        _check_ack_ids(request.ack_ids)
        seconds = request.ack_deadline_seconds
        if not 0 <= seconds <= ACK_DEADLINE_MAX:
            raise Refused(
                f"ack_deadline_seconds is {seconds}; give 0 to {ACK_DEADLINE_MAX}", grpc.StatusCode.INVALID_ARGUMENT
            )
        for ack_id in request.ack_ids:
            lease = feed.backlog.find(ack_id)
            if lease is not None and seconds == 0:
                self._broker.reject(feed, lease)
            elif lease is not None:
                feed.backlog.extend(lease, self._clock.monotonic() + seconds)
        return Empty()


def _check_ack_ids(ack_ids: Sequence[str]) -> None:
    """Refuses what was never an ack id; one of a delivery that is over is none of the caller's faults."""
    wrong = next((ack_id for ack_id in ack_ids if ACK_ID.fullmatch(ack_id) is None), None)
    if wrong is not None or not ack_ids:
        message = "no ack ids" if wrong is None else f"invalid ack id {wrong[:40]!r}"
        raise Refused(f"{message}; send the ack_id of received messages", grpc.StatusCode.INVALID_ARGUMENT)


def _serialized(response: Any) -> bytes:
    data: bytes = response.SerializeToString()
    return data


def _grpc_status(number: int) -> grpc.StatusCode:
    found = (status for status in grpc.StatusCode if status.value[0] == number and number != 0)
    return next(found, grpc.StatusCode.UNAVAILABLE)


def _unimplemented(method: str) -> Any:
    async def refuse(_: Any, context: Context) -> None:
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"{method} is not available in the sandbox: topics and subscriptions come from the program, "
            "and messages are published, pulled one call at a time, or pushed",
        )

    return grpc.stream_stream_rpc_method_handler(refuse)
