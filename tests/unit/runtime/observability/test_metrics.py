"""What is counted is there whoever looks, and once."""

from __future__ import annotations

from runtime.observability.metrics import Metrics


def test_counts_are_there_for_every_way_to_look() -> None:
    metrics = Metrics()
    metrics.delivered("completed")
    metrics.answered("/", "POST", 204)
    metrics.answered("/", "BREW", 405)
    value = metrics.registry.get_sample_value
    assert value("deliveries_total", {"outcome": "completed"}) == 1
    metrics.delivered("completed")
    assert b'deliveries_total{outcome="completed"} 2.0' in metrics.text()
    assert b'deliveries_total{outcome="completed"} 2.0' in metrics.text()
    assert value("http_requests_total", {"route": "/", "method": "POST", "status": "204"}) == 1
    assert value("http_requests_total", {"route": "/", "method": "other", "status": "405"}) == 1
