"""`holdfast:alerts`: who is told of what."""

from __future__ import annotations

import re
from typing import Annotated, Final

from infra.fields import Count, Explanation, Seconds, explained, ranged, shaped
from infra.sections.section import Section

_EMAIL: Final = re.compile(r"[^\s@,;]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+", re.ASCII | re.IGNORECASE)
_CHANNEL: Final = re.compile(r"projects/[a-z0-9.:-]+/notificationChannels/[0-9]+", re.ASCII)
_UNHEARD: Final = "an incident would open and nobody would hear of it"
_THRESHOLD: Final = "people would be woken for nothing, or too late"
_ERRORS: Final = "responses of class 5xx in five minutes"


class AlertsPlan(Section):
    """`holdfast:alerts`: who is told of what; without the section there are no alerts.

    Without e-mail addresses and channels the incidents are in the console only.
    """

    emails: tuple[Annotated[str, shaped(_EMAIL)], ...] = explained(
        Explanation("must list e-mail addresses", _UNHEARD, '["on-call@example.com"]'), ()
    )
    """Addresses that get a channel of their own."""
    channels: tuple[Annotated[str, shaped(_CHANNEL)], ...] = explained(
        Explanation(
            "must list notification channels that exist, projects/PROJECT/notificationChannels/NUMBER",
            _UNHEARD,
            '["projects/my-project/notificationChannels/1234567890"]',
        ),
        (),
    )
    """Channels that are not the stack's: a pager, a chat."""
    message_age: Seconds | None = ranged("message_age_seconds", 60, 604_800, None, _THRESHOLD, passing=1800)
    """Age of the oldest message of a worker; absent: two requests and the longest pause between them."""
    letter_age: Seconds = ranged("letter_age_seconds", 600, 604_800, 3600, _THRESHOLD)
    """How long a dead letter may wait for the API to record it."""
    api_errors: Count = ranged("api_errors", 1, 1_000_000, 5, _THRESHOLD, unit=_ERRORS)
    """Responses of class 5xx of the API, more than which are told."""
    internal_errors: Count = ranged("internal_errors", 1, 1_000_000, 50, _THRESHOLD, unit=_ERRORS)
    """The same of each internal service, where a 5xx is an attempt that is repeated."""
    key_age: Seconds = ranged("key_age_seconds", 1860, 25_200, 2700, _THRESHOLD)
    """Age of the push tokens' keys; they are fetched anew at 1800 seconds and used for 3600, and the grace setting."""
