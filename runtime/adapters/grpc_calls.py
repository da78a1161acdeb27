"""What a gRPC call's end means, apart from its service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import grpc
from google.api_core.exceptions import GoogleAPICallError
from grpc import StatusCode

T = TypeVar("T")


class ChannelClosed(Exception):
    """The channel ended before or during a call."""


async def answered(call: Awaitable[T]) -> T:
    """Waits for a call; that the channel cancels it is an error, not the cancellation of whoever waits.

    Raises:
        ChannelClosed
    """
    try:
        return await call
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ChannelClosed from None
    except grpc.aio.UsageError as error:
        raise ChannelClosed from error


def status_of(error: GoogleAPICallError) -> StatusCode:
    """The gRPC status of an error; UNKNOWN where it has none."""
    code = getattr(error, "grpc_status_code", None)
    return code if isinstance(code, StatusCode) else StatusCode.UNKNOWN


def described(error: GoogleAPICallError) -> str:
    """Status and text of an error, on one line of bounded length."""
    return f"{status_of(error).name}: {' '.join(str(error.message).split())[:300]}"
