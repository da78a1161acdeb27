"""Calls of Google's gRPC services, and what a call's end means, apart from its service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus

import grpc.aio
from google.protobuf.message import DecodeError
from grpc import StatusCode

from runtime.adapters.google_messages import Message, MessageClass, message_class
from runtime.ports.tokens import Tokens

T = TypeVar("T")

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # A connection that died without a word is found before a caller's time is over.
    ("grpc.keepalive_time_ms", 30_000),
    # gRPC's own pauses between tries to connect grow to two minutes, in which every call fails at once: longer than a
    # claim lives.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # The default, 4 MiB, is below what the services may answer.
    ("grpc.max_receive_message_length", -1),
    # Without it the environment's http_proxy would decide where tokens go.
    ("grpc.enable_http_proxy", 0),
)

_Status: Final = message_class("google.rpc.Status")
_RetryInfo: Final = message_class("google.rpc.RetryInfo")

Metadata = tuple[tuple[str, str], ...]


class ChannelClosed(Exception):
    """The channel ended before or during a call."""


class CallFailed(Exception):
    """A call ended with a status of its own.

    Attributes:
        status: which.
        text: the server's words, on one line of bounded length; never anything that was sent.
        retry_after: seconds that the server asks to wait; 0 where it does not.
    """

    def __init__(self, status: StatusCode, text: str, retry_after: float = 0.0) -> None:
        self.status = status
        self.text = f"{status.name}: {' '.join(text.split())[:300]}"
        self.retry_after = retry_after
        super().__init__(self.text)


def secure_channel(target: str) -> grpc.aio.Channel:
    """A TLS channel of the running event loop, which checks the server's certificate."""
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), CHANNEL_OPTIONS)


async def answered(call: Awaitable[T]) -> T:
    """Waits for a call; that the channel cancels it is an error, not the cancellation of whoever waits.

    Raises:
        CallFailed, ChannelClosed
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise CallFailed(error.code(), error.details() or "", _retry_after(error)) from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ChannelClosed from None
    except grpc.aio.UsageError as error:
        raise ChannelClosed from error


class Method:
    """One method of a service, called as the process's own service account.

    Args:
        channel: stays the caller's. It needs no credentials: the token goes with each call.
        tokens: who calls.
        scope: of the token.
        path: `/package.Service/Method`.
        response: the class of its answer, or of each item of it.
        stream: whether the answer is a stream, which is read to its end.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        tokens: Tokens,
        scope: str,
        path: str,
        response: MessageClass,
        *,
        stream: bool = False,
    ) -> None:
        self._tokens = tokens
        self._scope = scope
        make: Callable[..., Any] = channel.unary_stream if stream else channel.unary_unary
        self._start = make(path, response_deserializer=response.FromString)
        self._stream = stream
        self._metadata: tuple[str, Metadata, grpc.aio.Metadata] = ("", (), grpc.aio.Metadata())

    async def __call__(self, request: Message, metadata: Metadata, left: Callable[[], float]) -> Any:
        """Sends a request and returns the answer: a message, or the list of them.

        Args:
            request: what is sent.
            metadata: beside the token.
            left: seconds that the caller still has; asked once the token is there.

        Raises:
            CallFailed, ChannelClosed, TokenUnavailable: the last before anything is sent.
        """
        token = await self._tokens.access_token(self._scope)
        return await answered(self._sent(request, self._with(token, metadata), max(0.0, left())))

    async def _sent(self, request: Message, metadata: grpc.aio.Metadata, seconds: float) -> Any:
        call = self._start(request.SerializeToString(), timeout=seconds, metadata=metadata)
        return [item async for item in call] if self._stream else await call

    def _with(self, token: str, metadata: Metadata) -> grpc.aio.Metadata:
        """As gRPC wants it, made once for as long as the token lasts."""
        known, beside, made = self._metadata
        if token != known or metadata != beside:
            made = grpc.aio.Metadata(*metadata, ("authorization", f"Bearer {token}"))
            self._metadata = token, metadata, made
        return made


def routing(parameter: str, value: str) -> tuple[str, str]:
    """The metadata by which Google's front ends route a call to its resource.

    Args:
        parameter: the request's field that names the resource.
        value: what is in it.
    """
    return "x-goog-request-params", f"{parameter}={quote_plus(value, safe='/')}"


def _retry_after(error: grpc.aio.AioRpcError) -> float:
    longest = 0.0
    trailing: Any = error.trailing_metadata() or ()
    for name, value in trailing:
        if name == "grpc-status-details-bin" and isinstance(value, bytes):
            longest = max(longest, retry_hint(value))
    return longest


def retry_hint(details: bytes) -> float:
    """Seconds that a server asks to wait.

    Args:
        details: a serialized google.rpc.Status; what cannot be read asks for nothing.
    """
    status = _Status()
    try:
        status.ParseFromString(details)
        delays = [
            _RetryInfo.FromString(detail.value).retry_delay
            for detail in status.details
            if detail.type_url.endswith("/google.rpc.RetryInfo")
        ]
    except DecodeError:
        return 0.0
    return max((delay.seconds + delay.nanos / 1e9 for delay in delays), default=0.0)
