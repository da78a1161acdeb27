"""What a process counts, in a registry of its own. Labels are closed words: no id ever becomes a label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Metric, generate_latest

UNMATCHED: Final = "unmatched"
"""Route of what no route has."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER: Final = "other"


class _Tally:
    """Counts of what happens at every request, in plain numbers: they go to their counters when somebody looks."""

    def __init__(self) -> None:
        self._counts: dict[Counter, int] = {}

    def add(self, counter: Counter) -> None:
        """One more."""
        self._counts[counter] = self._counts.get(counter, 0) + 1

    def collect(self) -> Iterable[Metric]:
        """Called by the registry before the counters themselves are."""
        counts, self._counts = self._counts, {}
        for counter, count in counts.items():
            counter.inc(count)
        return ()


class Metrics:
    """The counters and gauges of one process; see docs for what each means to an operator."""

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry(auto_describe=True)
        registry = self.registry
        self._tally: Final = _Tally()
        registry.register(self._tally)
        self.requests = Counter(
            "http_requests", "Requests by matched route, method and status sent", ["route", "method", "status"],
            registry=registry,
        )  # fmt: skip
        self.requests_in_flight = Gauge("http_requests_in_flight", "Requests being answered", registry=registry)
        self.deliveries = Counter("deliveries", "Push deliveries by reason code", ["outcome"], registry=registry)
        # Finding a counter by its labels costs more than counting.
        self._answered: dict[tuple[str, str, int], Counter] = {}
        self._delivered: dict[str, Counter] = {}
        self.claim_waits = Counter("claim_waits", "Deliveries that parked on a live claim", registry=registry)
        self.claim_takeovers = Counter("claim_takeovers", "Claims taken from a stale owner", registry=registry)
        self.parked = Gauge("parked_deliveries", "Deliveries parked now", registry=registry)
        self.heartbeat_failures = Counter(
            "heartbeat_failures", "Heartbeats not confirmed, by cause", ["cause"], registry=registry
        )
        self.callback_batches = Counter(
            "callback_batches", "Event batches sent, by result", ["result"], registry=registry
        )
        self.callback_retries = Counter("callback_retries", "Callback tries after the first", registry=registry)
        self.callback_drops = Counter("callback_drops", "Events that were not delivered", registry=registry)
        self.runs = Counter("runs", "Runs that reached a state", ["state", "failure_class"], registry=registry)
        self.published = Counter("published", "Job messages published, by result", ["result"], registry=registry)
        self.swept = Counter("swept", "Runs that the sweeper acted on", ["action"], registry=registry)
        self.dead_letters = Counter(
            "dead_letters", "Dead letters written", ["source", "failure_class"], registry=registry
        )
        self.key_cache_age = Gauge("key_cache_age_seconds", "Age of the signing keys", registry=registry)
        self.isolated_processes = Gauge("isolated_processes", "Engine processes alive", registry=registry)
        self.executing = Gauge("executing_runs", "Runs that the executor works on now", registry=registry)
        self.executor_calls = Counter(
            "executor_calls", "Calls of the executor, by result", ["result"], registry=registry
        )
        self.streams = Counter("streams", "Streams of runs, by how they ended", ["end"], registry=registry)

    def delivered(self, outcome: str) -> None:
        """Counts a delivery by its reason code."""
        counter = self._delivered.get(outcome)
        if counter is None:
            counter = self._delivered[outcome] = self.deliveries.labels(outcome)
        self._tally.add(counter)

    def answered(self, route: str, method: str, status: int) -> None:
        """Counts a request by the pattern that it matched, its method as sent, and the status of its answer."""
        counter = self._answered.get((route, method, status))
        if counter is None:
            word = method if method in _METHODS else _OTHER
            counter = self._answered[route, word, status] = self.requests.labels(route, word, str(status))
        self._tally.add(counter)

    def malformed(self, status: int) -> None:
        """Counts what was answered without being a request: it has neither a route nor a method to trust."""
        self.answered(UNMATCHED, _OTHER, status)

    def text(self) -> bytes:
        """The registry in Prometheus text form."""
        return generate_latest(self.registry)
