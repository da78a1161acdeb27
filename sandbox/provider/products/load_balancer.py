"""Global external Application Load Balancers: from the address to the services behind it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from sandbox.provider.behaviour import Behaviour, Inputs, Surroundings
from sandbox.provider.faults import Failure
from sandbox.provider.limits import at, in_range, matches, one_of
from sandbox.provider.unknown import is_unknown
from sandbox.world import SERVICE, World

ADDRESS: Final = "gcp:compute/globalAddress:GlobalAddress"
ENDPOINT_GROUP: Final = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"
BACKEND: Final = "gcp:compute/backendService:BackendService"
URL_MAP: Final = "gcp:compute/uRLMap:URLMap"
CERTIFICATE: Final = "gcp:compute/managedSslCertificate:ManagedSslCertificate"
TLS_POLICY: Final = "gcp:compute/sSLPolicy:SSLPolicy"
HTTPS_PROXY: Final = "gcp:compute/targetHttpsProxy:TargetHttpsProxy"
HTTP_PROXY: Final = "gcp:compute/targetHttpProxy:TargetHttpProxy"
FORWARDING_RULE: Final = "gcp:compute/globalForwardingRule:GlobalForwardingRule"

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME_RULE: Final = "1 to 63 lower case letters, digits and hyphens, starting with a letter, not ending with a hyphen"
_DOMAIN: Final = re.compile(r"(?=.{4,64}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}\.?", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?", re.ASCII)
_SCHEMES: Final = ("EXTERNAL", "EXTERNAL_MANAGED", "INTERNAL_MANAGED", "INTERNAL_SELF_MANAGED")
_SERVERLESS: Final = ("cloudRun", "appEngine", "cloudFunction", "serverlessDeployment")
_NOT_FOR_SERVERLESS: Final = ("healthChecks", "timeoutSec", "portName")
_CERTIFICATES: Final = ("sslCertificates", "certificateMap", "certificateManagerCertificates")
_CERTIFICATES_MAX: Final = 15
_DOMAINS_MAX: Final = 100
_REDIRECTS: Final = ("MOVED_PERMANENTLY_DEFAULT", "FOUND", "SEE_OTHER", "TEMPORARY_REDIRECT", "PERMANENT_REDIRECT")
_PROFILES: Final = ("COMPATIBLE", "MODERN", "RESTRICTED", "CUSTOM", "FIPS_202205")


def _named(inputs: Inputs, _: Surroundings) -> str:
    return str(inputs["name"])


def _name_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from matches(inputs, "name", _NAME, _NAME_RULE)


def _computed(collection: str, name: str, inputs: Inputs, _: World) -> dict[str, Any]:
    place = f"regions/{inputs['region']}" if "region" in inputs else "global"
    full = f"projects/{inputs['project']}/{place}/{collection}/{name}"
    return {"id": full, "selfLink": f"https://www.googleapis.com/compute/v1/{full}"}


def _address_computed(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
    """An address of the block that documents use, which leads nowhere."""
    host = 1 + int(hashlib.sha256(name.encode()).hexdigest(), 16) % 254
    return {**_computed("addresses", name, inputs, world), "address": f"203.0.113.{host}"}


def _group_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    given = [kind for kind in _SERVERLESS if inputs.get(kind) is not None]
    if inputs["networkEndpointType"] == "SERVERLESS" and len(given) != 1:
        yield Failure("cloudRun", f"exactly one of {', '.join(_SERVERLESS)} is needed")
    service = inputs.get("cloudRun")
    if service is not None and not (service.get("service") or service.get("urlMask")):
        yield Failure("cloudRun.service", "is missing; a group names a service, or takes it from the address")


def _group_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    name = at(inputs, "cloudRun.service")
    service = world.find(SERVICE, name) if name else None
    if name and service is None:
        yield Failure("cloudRun.service", f"service {name} does not exist")
    elif service is not None and service.inputs["location"] != inputs["region"]:
        yield Failure("region", f"{inputs['region']} is not {service.inputs['location']}, where the service is")


def _backend_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    yield from one_of(inputs, "loadBalancingScheme", _SCHEMES)
    yield from in_range(inputs, "logConfig.sampleRate", 0, 1)


def _backend_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    for index, backend in enumerate(inputs.get("backends") or []):
        path, name = f"backends[{index}].group", str(backend["group"])
        if "/networkEndpointGroups/" not in name:
            continue
        group = world.find(ENDPOINT_GROUP, name)
        if group is None:
            yield Failure(path, f"endpoint group {name} does not exist")
        elif group.inputs["networkEndpointType"] == "SERVERLESS":
            for key in _NOT_FOR_SERVERLESS:
                if inputs.get(key):
                    yield Failure(key, "is not for serverless endpoints; remove it")


def _map_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    ways = ("defaultService", "defaultUrlRedirect", "defaultRouteAction")
    if len([way for way in ways if inputs.get(way) is not None]) != 1:
        yield Failure("defaultService", f"exactly one of {', '.join(ways)} is needed")
    yield from one_of(inputs, "defaultUrlRedirect.redirectResponseCode", _REDIRECTS)


def _certificate_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    domains = at(inputs, "managed.domains") or []
    if not 1 <= len(domains) <= _DOMAINS_MAX:
        yield Failure("managed.domains", f"has {len(domains)} members; a certificate has 1 to {_DOMAINS_MAX}")
    for index, domain in enumerate(domains):
        if not is_unknown(domain) and not _DOMAIN.fullmatch(domain):
            yield Failure(f"managed.domains[{index}]", f"{domain!r} is refused; it must be a domain, no wildcard")


def _tls_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    yield from one_of(inputs, "profile", _PROFILES)
    yield from one_of(inputs, "minTlsVersion", ("TLS_1_0", "TLS_1_1", "TLS_1_2", "TLS_1_3"))
    if (inputs["profile"] == "CUSTOM") != bool(inputs.get("customFeatures")):
        yield Failure("customFeatures", "belong to the profile CUSTOM, and to no other")


def _https_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    if not any(inputs.get(source) for source in _CERTIFICATES):
        yield Failure("sslCertificates", f"one of {', '.join(_CERTIFICATES)} is needed")
    if len(inputs.get("sslCertificates") or []) > _CERTIFICATES_MAX:
        yield Failure("sslCertificates", f"has more than {_CERTIFICATES_MAX} members")


def _rule_rules(inputs: Inputs) -> Iterator[Failure]:
    yield from _name_rules(inputs)
    yield from one_of(inputs, "loadBalancingScheme", _SCHEMES)
    yield from matches(inputs, "portRange", _PORT, "a port, or a range of ports")


def _rule_missing(inputs: Inputs, world: World) -> Iterator[Failure]:
    yield from _referred(("ipAddress", (ADDRESS,)), ("target", (HTTPS_PROXY, HTTP_PROXY)))(inputs, world)
    for other in world.of_type(FORWARDING_RULE):
        same = all(other.inputs.get(key) == inputs.get(key) for key in ("ipAddress", "portRange", "ipProtocol"))
        if same and other.name != inputs["name"] and inputs.get("ipAddress"):
            yield Failure("portRange", f"{inputs.get('portRange')} of the address is taken by {other.name}")


def _referred(*references: tuple[str, Sequence[str]]) -> Callable[[Inputs, World], Iterator[Failure]]:
    """What the named inputs refer to must exist as one of the types."""

    def missing(inputs: Inputs, world: World) -> Iterator[Failure]:
        for key, types in references:
            value = inputs.get(key)
            for name in value if isinstance(value, list) else [value] if value else []:
                if all(world.find(type_, name) is None for type_ in types):
                    yield Failure(key, f"{name} does not exist")

    return missing


def _labelled(computed: Callable[[str, Inputs, World], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def with_labels(name: str, inputs: Inputs, world: World) -> dict[str, Any]:
        labels = inputs.get("labels", {})
        return {**computed(name, inputs, world), "effectiveLabels": labels, "pulumiLabels": labels}

    return with_labels


def _behaviour(collection: str, immutable: Sequence[str] = (), **parts: Any) -> Behaviour:
    return Behaviour(
        name=_named,
        auto_name="name",
        immutable=frozenset({"name", "project", *immutable}),
        **{"computed": partial(_computed, collection), "rules": _name_rules, **parts},
    )


BEHAVIOURS: Final = {
    ADDRESS: _behaviour("addresses", ["ipVersion", "addressType", "address"], computed=_labelled(_address_computed)),
    ENDPOINT_GROUP: _behaviour(
        "networkEndpointGroups",
        ["region", "networkEndpointType", *_SERVERLESS],
        defaults=lambda inputs: {"networkEndpointType": "SERVERLESS", **inputs},
        rules=_group_rules,
        missing=_group_missing,
    ),
    BACKEND: _behaviour(
        "backendServices",
        ["loadBalancingScheme"],
        defaults=lambda inputs: {"loadBalancingScheme": "EXTERNAL", **inputs},
        rules=_backend_rules,
        missing=_backend_missing,
    ),
    URL_MAP: _behaviour("urlMaps", rules=_map_rules, missing=_referred(("defaultService", (BACKEND,)))),
    CERTIFICATE: _behaviour("sslCertificates", ["managed"], rules=_certificate_rules),
    TLS_POLICY: _behaviour(
        "sslPolicies",
        defaults=lambda inputs: {"profile": "COMPATIBLE", "minTlsVersion": "TLS_1_0", **inputs},
        rules=_tls_rules,
    ),
    HTTPS_PROXY: _behaviour(
        "targetHttpsProxies",
        rules=_https_rules,
        missing=_referred(("urlMap", (URL_MAP,)), ("sslCertificates", (CERTIFICATE,)), ("sslPolicy", (TLS_POLICY,))),
    ),
    HTTP_PROXY: _behaviour("targetHttpProxies", missing=_referred(("urlMap", (URL_MAP,)))),
    FORWARDING_RULE: _behaviour(
        "forwardingRules",
        ["ipAddress", "ipProtocol", "portRange", "loadBalancingScheme"],
        defaults=lambda inputs: {"loadBalancingScheme": "EXTERNAL", "ipProtocol": "TCP", **inputs},
        computed=_labelled(partial(_computed, "forwardingRules")),
        rules=_rule_rules,
        missing=_rule_missing,
    ),
}
