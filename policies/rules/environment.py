"""What stands in a service's environment, and what must not."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..resource import Resource
from ..rule import Context, Level, Rule, Scope, Severity, rule
from ..workload import Role, Workload

_RESERVED: Final = frozenset({"PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION", "METRICS_PORT"})
_FORBIDDEN: Final = re.compile(
    r"""
    (?:PUBSUB|FIRESTORE|DATASTORE|STORAGE|SECRET_MANAGER)_EMULATOR_HOST
    | GOOGLE_APPLICATION_CREDENTIALS(?:_JSON)? | GOOGLE_CREDENTIALS | GOOGLE_OAUTH_ACCESS_TOKEN
    | GOOGLE_SERVICE_ACCOUNT(?:_PATH|_KEY)? | SERVICE_ACCOUNT | CLOUDSDK_AUTH_ACCESS_TOKEN
    | GCE_METADATA_(?:HOST|IP|ROOT) | METADATA_SERVER_DETECTION
    | (?:HTTP|HTTPS|ALL)_PROXY | (?:http|https|all)_proxy
    | (?:no_)?grpc_proxy | GRPC_DEFAULT_SSL_ROOTS_FILE_PATH | GRPC_SSL_CIPHER_SUITES | GOOGLE_CLOUD_UNIVERSE_DOMAIN
    | GOOGLE_SKIP_SIGNATURE | GOOGLE_ALLOW_HTTP | GOOGLE_ALLOW_INVALID_CERTIFICATES
    | GOOGLE_PROXY_(?:URL|CA_CERTIFICATE|EXCLUDES)
    | CLOUDSDK_API_ENDPOINT_OVERRIDES_.* | GOOGLE_.*_CUSTOM_ENDPOINT
    """,
    re.VERBOSE | re.DOTALL,
)
"""Variables that hand the identity, or the traffic, of a service to whoever writes its environment; empty counts."""
_SECRET_NAME: Final = re.compile(
    r"(?:.*[_.-])?(?:(?:(?:API|ACCESS|PRIVATE|SECRET|SIGNING)?KEY|SECRET|TOKEN|\w*PASSWORD|PASSWD|PASSPHRASE"
    r"|CREDENTIALS?)(?:[_.-].*)?|PASS)",
    re.ASCII | re.IGNORECASE,
)
_NO_SECRET_NAME: Final = re.compile(
    r"(?:.*[_.-])?(?:PUBLIC(?:[_.-].*)?|HASH|HASHES|FINGERPRINT|ID|KID|NAME|URL|URI|FILE|PATH|AUDIENCE|TYPE|ALGORITHM"
    r"|COUNT|LIMIT|SIZE|LIFE|LIFETIME|TTL|AGE|SECS|SECONDS|MS)",
    re.ASCII | re.IGNORECASE,
)
"""A public half, or a last word that says something about a secret and is none."""
_SECRET_VALUE: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAIza[0-9A-Za-z_-]{35}|\bya29\.[\w-]{20,}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}|://[^/\s:@]+:[^/\s:@]+@",
    re.ASCII,
)
"""A private key, an API key, an access token, a signed token, a URL with a password."""
_DATABASE: Final = re.compile(r"DATABASE_URL|.*POSTGRES_(?:PASSWORD|CONNECTION_STRING)|PGPASSWORD|PGPASSFILE", re.ASCII)
_OUTPUT: Final = re.compile(r"Calling (?:\[?__str__\]?|str\(\)) on an Output|<pulumi\.output|Calling \[?toString\]?")


@rule(
    "R09",
    "No variable is the platform's own",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    breaks="the deployment is refused, or shows the same change for ever",
    fix="Remove it; the platform sets PORT and K_*, and metrics are served on the same port",
)
def r09(workload: Workload, _: Context) -> Iterator[str]:
    """Reserved names."""
    for name in sorted({variable.name for variable in workload.variables} & _RESERVED):
        yield f"it declares {name}"


@rule(
    "R10",
    "No variable redirects a service's identity or traffic",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="production talks to an emulator or a proxy, or as someone else, and nothing says so",
    fix="Remove it; an empty value counts as well",
)
def r10(workload: Workload, _: Context) -> Iterator[str]:
    """Emulators, credentials, proxies, endpoint overrides."""
    for name in sorted({variable.name for variable in workload.variables if _FORBIDDEN.fullmatch(variable.name)}):
        yield f"it declares {name}"


@rule(
    "R11",
    "Secrets come from the secret manager",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="whoever may look at the service, its state or a preview has the secret",
    fix="Use valueSource.secretKeyRef, and replace the secret, which has been seen",
)
def r11(workload: Workload, _: Context) -> Iterator[str]:
    """Names and values that look like secrets; the value is never shown. What R10 forbids must go in any case."""
    for variable in workload.variables:
        if _FORBIDDEN.fullmatch(variable.name):
            continue
        text = variable.properties.known_text("value") or ""
        empty = variable.properties.known("value") == ""
        named = variable.is_literal and not empty and _is_of_secret(variable.name)
        if named or _SECRET_VALUE.search(text) or _SECRET_VALUE.search(_decoded(text)):
            yield f"{variable.name} is a secret in plain text"


def _is_of_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name) is not None and _NO_SECRET_NAME.fullmatch(name) is None


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""


@rule(
    "R12",
    "A secret is taken in a version",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    breaks="the service does not start",
    fix="Name the number of the version",
)
def r12(workload: Workload, _: Context) -> Iterator[str]:
    """A version, whichever."""
    for variable in workload.variables:
        if variable.is_secret and not variable.has_version:
            yield f"{variable.name} names no version of its secret"


@rule(
    "R13",
    "A secret is taken in a fixed version",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    level=Level.ADVISORY,
    severity=Severity.MEDIUM,
    breaks="after a rotation, old and new instances of one revision have different values",
    fix="Name the number of the version, and keep the old one until no revision has it",
)
def r13(workload: Workload, _: Context) -> Iterator[str]:
    """Not `latest`."""
    for variable in workload.variables:
        if variable.version == "latest":
            yield f"{variable.name} takes the latest version"


@rule(
    "R14",
    "What runs jobs has neither the key that signs them nor a database's password",
    over=lambda facts: [each for each in facts.workloads if each.role in {Role.WORKER, Role.EXECUTOR}],
    scope=Scope.RESOURCE,
    severity=Severity.CRITICAL,
    breaks="a job that breaks out can sign jobs of its own, or read everyone's data",
    fix="Remove it: jobs are verified with BACKEND_PUB, and databases take the service's identity",
)
def r14(workload: Workload, _: Context) -> Iterator[str]:
    """Literal or from the secret manager."""
    for name in sorted({variable.name for variable in workload.variables}):
        if name == "BACKEND_KEY" or _DATABASE.fullmatch(name):
            yield f"it has {name}"


@rule(
    "R15",
    "Variables are texts, each given once",
    over=lambda facts: facts.workloads,
    scope=Scope.RESOURCE,
    severity=Severity.MEDIUM,
    breaks="the provider fails, or shows the same change for ever",
    fix="Give each variable once, numbers as text, and true or false in lower case",
)
def r15(workload: Workload, _: Context) -> Iterator[str]:
    """Types and repetitions."""
    for name, times in sorted(Counter(variable.name for variable in workload.variables).items()):
        if times > 1:
            yield f"{name} is given {times} times"
    for variable in workload.variables:
        value = variable.properties.known("value")
        if value is not None and not isinstance(value, str):
            yield f"{variable.name} is no text"
        elif value in {"True", "False"}:
            yield f"{variable.name} is true or false, but not in lower case"


@rule(
    "R16",
    "No value is the text of an output",
    over=lambda facts: [each for each in facts.resources if each.type.startswith("gcp:")],
    scope=Scope.RESOURCE,
    breaks="a sentence about Pulumi is deployed in place of the value",
    fix="Use Output.concat, Output.format or apply in place of an f-string",
)
def r16(resource: Resource, _: Context) -> Iterator[str]:
    """Texts that Python makes of an output."""
    for place, text in resource.properties.every_text():
        if _OUTPUT.search(text):
            yield f"{place} is the text of an output"


RULES: Final[tuple[Rule, ...]] = (r09, r10, r11, r12, r13, r14, r15, r16)
