"""The timeout rules: one list, read where a program is planned and where a process starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from runtime.contract.alignment import Alignment, Finding, finding
from runtime.contract.timeout_rules import broker, delivery, service

Rule = Callable[[Alignment], Iterator[Finding]]

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "T01": delivery.t01,
        "T02": delivery.t02,
        "T03": delivery.t03,
        "T04": service.t04,
        "T05": broker.t05,
        "T06": broker.t06,
        "T07": delivery.t07,
        "T08": delivery.t08,
        "T09": broker.t09,
        "T10": broker.t10,
        "T11": broker.t11,
        "T12": broker.t12,
        "T13": service.t13,
        "T14": service.t14,
        "T15": broker.t15,
        "T16": service.t16,
        "T17": service.t17,
    }
)
"""Stable id -> rule."""


def check(facts: Alignment) -> list[Finding]:
    """Every rule that does not hold, in the order of their ids; empty where the facts agree."""
    return [found for rule in RULES.values() for found in rule(facts)]


def advise(facts: Alignment) -> list[Finding]:
    """What holds and could be better: worth a warning, never a refusal."""
    process, ack = facts.process, facts.ack
    if process is None or ack is None:
        return []
    delay, period, failures = facts.startup_delay, facts.startup_period, facts.startup_failures
    window = 0 if delay is None or period is None or failures is None else delay + period * failures
    if process + window <= ack:
        return []
    rule = f"with {window} s to start, a delivery may outlast the broker's patience and be repeated while it works"
    return [finding("T06", facts, ("process", facts.ack_name), rule, max(1, ack - window))]
