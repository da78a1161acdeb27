"""What goes wrong, and when: the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sandbox.cloud_run.faults import Action, Fault, Point


class Disturbance(StrEnum):
    """One kind of trouble; its name stands in the summary."""

    KILL = "kill -9 of a worker"
    KEYS = "key service away, seconds"
    DUPLICATE = "pushes sent twice"
    REORDER = "pushes overtaken"
    UNANSWERED = "acknowledgements lost"
    REPUBLISHED = "messages stored twice"


@dataclass(frozen=True, slots=True)
class Event:
    """What happens at one moment.

    Attributes:
        at: seconds since the first submission.
        what: see Disturbance.
        amount: how many calls, or how many seconds, or which of the instances.
    """

    at: float
    what: Disturbance
    amount: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is ordered.

    Attributes:
        events: in order of time.
        instances: what each started worker meets, one after another; later ones meet nothing.
    """

    events: tuple[Event, ...]
    instances: tuple[tuple[Fault, ...], ...]


CALLS: Final = (
    "create pubsub-claims", "replace pubsub-claims", "get pubsub-claims", "create dead_letters", "",
)  # fmt: skip
"""Calls of the store that fail; "" is any."""
STEPS: Final = (
    (Point.DOCUMENTS_BEFORE, "create pubsub-claims"),
    (Point.DOCUMENTS_AFTER, "create pubsub-claims"),
    (Point.HTTP_AFTER, "/execution/progress"),
    (Point.HTTP_BEFORE, "/execution/events"),
    (Point.DOCUMENTS_BEFORE, "replace pubsub-claims"),
    (Point.DOCUMENTS_AFTER, "replace pubsub-claims"),
)
"""Where a worker dies by itself: each is another step of a delivery."""
SKEWS: Final = (300.0, 0.0, -300.0, 150.0, 0.0, 300.0)
"""Seconds by which the clocks of workers are wrong, in turn."""
INSTANCES: Final = 40
"""More than are ever started while things go wrong."""
SLOW_SECONDS: Final = 0.15
KILLS: Final = 8
BURSTS: Final = 3
"""How often each trouble of the broker comes."""


def plan(seed: int, seconds: float) -> Plan:
    """The plan of a seed.

    Args:
        seed: any number.
        seconds: from the first submission; after them nothing more goes wrong.
    """
    choose = random.Random(seed)  # noqa: S311 - picks test cases
    events = [Event(choose.uniform(0.1, 1.0) * seconds, Disturbance.KILL, choose.randrange(8)) for _ in range(KILLS)]
    events.append(Event(choose.uniform(0.2, 0.5) * seconds, Disturbance.KEYS, max(1, round(seconds / 6))))
    for what in (Disturbance.DUPLICATE, Disturbance.REORDER, Disturbance.UNANSWERED):
        events += [Event(choose.uniform(0, 0.9) * seconds, what, choose.randint(10, 30)) for _ in range(BURSTS)]
    events += [
        Event(choose.uniform(0, 0.9) * seconds, Disturbance.REPUBLISHED, choose.randint(1, 5)) for _ in range(BURSTS)
    ]
    instances = tuple(_instance(choose, number) for number in range(INSTANCES))
    return Plan(tuple(sorted(events, key=lambda event: event.at)), instances)


def _instance(choose: random.Random, number: int) -> tuple[Fault, ...]:
    faults = [Fault(point=Point.CLOCK, action=Action.SKEW, seconds=SKEWS[number % len(SKEWS)])]
    for match in choose.sample(CALLS, 3):
        point = choose.choice((Point.DOCUMENTS_BEFORE, Point.DOCUMENTS_AFTER))
        faults.append(Fault(point=point, action=Action.ERROR, match=match, nth=choose.randint(1, 60)))
    faults += [
        Fault(point=point, action=Action.ERROR, match="/execution/", nth=choose.randint(1, 60))
        for point in (Point.HTTP_BEFORE, Point.HTTP_AFTER)
    ]
    if number % 3 == 1:
        faults.append(Fault(point=Point.DOCUMENTS_BEFORE, action=Action.DELAY, nth=0, seconds=SLOW_SECONDS))
    if number % 3 == 2:
        point, match = choose.choice(STEPS)
        faults.append(Fault(point=point, action=Action.KILL, match=match, nth=choose.randint(5, 60)))
    return tuple(faults)
