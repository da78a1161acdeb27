"""The pack as Pulumi's engine knows it: one policy for each rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from .configuration import Configuration, level_of, options_of, own_configuration
from .facts import Facts
from .properties import Properties, plain
from .resource import Resource
from .rule import Rule, Scope
from .rules import RULES
from .verdict import details, message_of

NAME = "holdfast"


def policies() -> list[Policy]:
    """A policy for each rule, under the rule's id."""
    return [_resource_policy(rule) if rule.scope is Scope.RESOURCE else _stack_policy(rule) for rule in RULES]


def serve() -> None:
    """Serves the engine until it ends the process; the port is on the first line of the output."""
    PolicyPack(
        NAME, policies(), enforcement_level=EnforcementLevel.MANDATORY, initial_config=_initial(own_configuration())
    )


def _initial(configuration: Configuration) -> dict[str, EnforcementLevel | dict[str, Any]]:
    """A configuration in the SDK's terms."""
    levels = {"all": EnforcementLevel(configuration["all"])} if "all" in configuration else {}
    rules = {
        rule.id: {
            "enforcementLevel": EnforcementLevel(level_of(rule, configuration)),
            **options_of(rule, configuration),
        }
        for rule in RULES
        if rule.id in configuration
    }
    return {**levels, **rules}


def _stack_policy(rule: Rule) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        _report(rule, [_of_stack(resource) for resource in args.resources], args.get_config(), report)

    return StackValidationPolicy(validate=validate, **_described(rule))


def _resource_policy(rule: Rule) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = Resource(type=args.resource_type, name=args.name, urn=args.urn, properties=_properties(args.props))
        _report(rule, [resource], args.get_config(), report)

    return ResourceValidationPolicy(validate=validate, **_described(rule))


def _report(
    rule: Rule, resources: Sequence[Resource], options: Mapping[str, Any], report: Callable[[str, str], None]
) -> None:
    for urn, detail in details(rule, Facts(resources), options):
        report(message_of(rule, detail), urn)


def _of_stack(resource: PolicyResource) -> Resource:
    sources = resource.property_dependencies
    return Resource(
        type=resource.resource_type,
        name=resource.name,
        urn=resource.urn,
        properties=_properties(resource.props),
        dependencies=tuple(source.urn for source in resource.dependencies),
        property_dependencies={name: tuple(source.urn for source in found) for name, found in sources.items()},
    )


def _properties(props: Mapping[str, Any]) -> Properties:
    values = plain(props, UnknownValueError)
    return Properties(values if isinstance(values, dict) else {})


def _described(rule: Rule) -> dict[str, Any]:
    schema = PolicyConfigSchema({name: option.schema for name, option in rule.options.items()})
    return {
        "name": rule.id,
        "description": f"{rule.summary}.",
        "display_name": rule.summary,
        "enforcement_level": EnforcementLevel(rule.level),
        "severity": Severity(rule.severity),
        "remediation_steps": rule.fix,
        "config_schema": schema if rule.options else None,
    }
