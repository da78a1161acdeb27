"""Environment variables that must not be there: their presence alone is fatal, an empty value included.

Ignoring one would let an operator believe that an override works; honouring one would hand the identity, or the
traffic, of the service to whoever writes its environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from runtime.contract.settings.faults import Fault

_CREDENTIAL: Final = "forbidden_credential_setting"
_ENDPOINT: Final = "forbidden_endpoint_setting"


class Role(StrEnum):
    """Whose environment it is; each role refuses what could reach the clients that it uses."""

    API = "api"
    EXECUTOR = "executor"
    WORKER = "worker"
    FILE_TRACKING_WORKER = "file-tracking-worker"
    """The worker that also talks to a SQL database."""


class Family(NamedTuple):
    """Variables that are refused for one reason.

    Attributes:
        code: reason code of the fault.
        why: what the variable would change, and what to do instead.
        names: exact names; case matters, as it does to the libraries that read them.
        shapes: patterns of whole names, for families that have no end.
    """

    code: str
    why: str
    names: tuple[str, ...] = ()
    shapes: tuple[re.Pattern[str], ...] = ()

    def holds(self, name: str) -> bool:
        """Whether a variable is of this family."""
        return name in self.names or any(shape.fullmatch(name) for shape in self.shapes)


_OWN_IDENTITY: Final = "a service has the identity of its service account, from the metadata server and nowhere else"
_REAL_ENDPOINTS: Final = "a service talks to Google's own endpoints and nothing else"


def _credentials(names: str) -> Family:
    return Family(_CREDENTIAL, _OWN_IDENTITY, tuple(names.split()))


def _endpoints(names: str, *shapes: str) -> Family:
    return Family(
        _ENDPOINT, _REAL_ENDPOINTS, tuple(names.split()), tuple(re.compile(shape, re.DOTALL) for shape in shapes)
    )


CREDENTIALS: Final = _credentials(
    """
    GOOGLE_APPLICATION_CREDENTIALS GOOGLE_APPLICATION_CREDENTIALS_JSON GOOGLE_CREDENTIALS GOOGLE_OAUTH_ACCESS_TOKEN
    CLOUDSDK_AUTH_ACCESS_TOKEN GCE_METADATA_HOST GCE_METADATA_IP GCE_METADATA_ROOT METADATA_SERVER_DETECTION
    HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
    """
)
KEY_MATERIAL: Final = _credentials(
    "GOOGLE_SERVICE_ACCOUNT GOOGLE_SERVICE_ACCOUNT_PATH GOOGLE_SERVICE_ACCOUNT_KEY SERVICE_ACCOUNT"
)
TRANSPORT: Final = _endpoints(
    """
    GOOGLE_SKIP_SIGNATURE GOOGLE_ALLOW_HTTP GOOGLE_ALLOW_INVALID_CERTIFICATES GOOGLE_PROXY_URL
    GOOGLE_PROXY_CA_CERTIFICATE GOOGLE_PROXY_EXCLUDES
    """
)
GRPC: Final = _endpoints(
    # gRPC's core reads these by itself: whom it trusts, what it encrypts with, whom it goes through.
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH GRPC_SSL_CIPHER_SUITES grpc_proxy no_grpc_proxy"
)
UNIVERSE: Final = _endpoints(
    # Google's libraries put it in place of googleapis.com.
    "GOOGLE_CLOUD_UNIVERSE_DOMAIN"
)
EMULATORS: Final = _endpoints(
    "STORAGE_EMULATOR_HOST PUBSUB_EMULATOR_HOST FIRESTORE_EMULATOR_HOST DATASTORE_EMULATOR_HOST"
)
SECRET_EMULATOR: Final = _endpoints("SECRET_MANAGER_EMULATOR_HOST")
EVERY_OVERRIDE: Final = _endpoints("", r"CLOUDSDK_API_ENDPOINT_OVERRIDES_.*", r"GOOGLE_.*_CUSTOM_ENDPOINT")
QUEUE_OVERRIDES: Final = _endpoints(
    """
    CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE GOOGLE_STORAGE_CUSTOM_ENDPOINT
    CLOUDSDK_API_ENDPOINT_OVERRIDES_FIRESTORE CLOUDSDK_API_ENDPOINT_OVERRIDES_DATASTORE GOOGLE_FIRESTORE_CUSTOM_ENDPOINT
    """
)
SQL_OVERRIDES: Final = _endpoints("CLOUDSDK_API_ENDPOINT_OVERRIDES_SQLADMIN")
DATABASE: Final = _credentials(
    """
    DATABASE_URL GCP_POSTGRES_PASSWORD GCP_POSTGRES_CONNECTION_STRING POSTGRES_PASSWORD PGPASSWORD PGPASSFILE PGSERVICE
    PGSERVICEFILE PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGSSLMODE PGSSLROOTCERT PGSSLCERT PGSSLKEY PGOPTIONS
    PGAPPNAME INSTANCE_CONNECTION_NAME CLOUD_SQL_CONNECTION_NAME CLOUD_SQL_PROXY_PATH CSQL_PROXY_ADDRESS
    CSQL_PROXY_PORT CSQL_PROXY_UNIX_SOCKET CSQL_PROXY_TOKEN CSQL_PROXY_CREDENTIALS_FILE CSQL_PROXY_JSON_CREDENTIALS
    CSQL_PROXY_AUTO_IAM_AUTHN
    """
)

_COMPLETE: Final = (CREDENTIALS, KEY_MATERIAL, TRANSPORT, GRPC, UNIVERSE, EMULATORS, SECRET_EMULATOR, EVERY_OVERRIDE)
_WORKER: Final = (CREDENTIALS, KEY_MATERIAL, GRPC, UNIVERSE, EMULATORS, QUEUE_OVERRIDES)

FORBIDDEN: Final[Mapping[Role, tuple[Family, ...]]] = MappingProxyType(
    {
        Role.API: _COMPLETE,
        Role.EXECUTOR: _COMPLETE,
        Role.WORKER: _WORKER,
        Role.FILE_TRACKING_WORKER: (*_WORKER, SQL_OVERRIDES, DATABASE),
    }
)
"""What each role refuses. The API meets everything that the executor meets, and holds the signing key besides."""


def scan(env: Mapping[str, str], role: Role) -> list[Fault]:
    """A fault for each forbidden variable of an environment, family by family; values are never repeated."""
    return [
        Fault(family.code, f"{name} is set (an empty value counts), but {family.why}; remove the variable")
        for family in FORBIDDEN[role]
        for name in sorted(filter(family.holds, env))
    ]
