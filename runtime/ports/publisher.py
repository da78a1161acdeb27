"""Sending a message to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runtime.contract.errors import Decision, HoldfastError


class PublishError(HoldfastError):
    """Root of what a publisher may raise."""

    code = "publish_error"


class PublishUnavailable(PublishError):
    """The broker did not answer in time; the message may or may not be published."""

    code = "publish_unavailable"
    decision = Decision.RETRY


class PublishRefused(PublishError):
    """The broker says no: topic missing, permission missing, message too large."""

    code = "publish_refused"


class Publisher(Protocol):
    """A broker's publishing side."""

    async def publish(self, topic: str, data: bytes, attributes: Mapping[str, str], *, timeout: float = 10) -> str:
        """Publishes one message and returns its id once the broker has stored it. One try: callers own retries.

        Args:
            topic: full name, `projects/P/topics/T`.
            data: at most 10 MiB.
            attributes: string to string.
            timeout: seconds.

        Raises:
            PublishUnavailable, PublishRefused
        """
        ...

    async def close(self) -> None:
        """Releases connections."""
        ...
