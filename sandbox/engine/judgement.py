"""Asks the policy pack's rules about what a program registered, where no engine does it."""

from __future__ import annotations

from collections.abc import Iterable

from policies.properties import Properties, plain
from policies.resource import Resource
from policies.rule import Level
from policies.verdict import judge
from sandbox.engine.registration import Registration
from sandbox.engine.violation import Violation


def violations(registrations: Iterable[Registration]) -> list[Violation]:
    """Everything that breaks a rule, with the configuration that comes with the pack."""
    resources = [policy_resource(one) for one in registrations if one.custom]
    return [
        Violation(found.rule.id, found.urn, found.message, mandatory=found.level is Level.MANDATORY)
        for found in judge(resources)
    ]


def policy_resource(registration: Registration) -> Resource:
    """A registration as the rules see it."""
    values = plain(registration.inputs)
    return Resource(
        type=registration.type,
        name=registration.name,
        urn=registration.urn,
        properties=Properties(values if isinstance(values, dict) else {}),
        dependencies=registration.dependencies,
        property_dependencies=registration.property_dependencies,
    )
