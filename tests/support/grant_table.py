"""Every grant that a stack has, as a table: who, which role, on what. A part of a stack adds its rows here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sandbox.world import MEMBER_TYPES, Kind, World, short_name

Row = tuple[str, str, str]
"""Account id, or `agent:PRODUCT` for one of Google's own; role without `roles/`; kind and name of the target. `+` is
the stack's prefix, `.` its project."""

PUBSUB: Final = "agent:gcp-sa-pubsub"
STORAGE: Final = "agent:gs-project-accounts"

ALWAYS: Final[tuple[Row, ...]] = (
    ("+-api", "datastore.user", "project ."),
    ("+-api", "pubsub.publisher", "topic +-execution-jobs"),
    ("+-api", "secretmanager.secretAccessor", "secret +-signing-key"),
    ("+-execution", "datastore.user", "project ."),
    ("+-execution-push", "run.invoker", "service +-execution"),
    (PUBSUB, "iam.serviceAccountTokenCreator", "service account +-execution-push"),
    (PUBSUB, "iam.serviceAccountTokenCreator", "service account +-dead-letters"),
    (PUBSUB, "pubsub.subscriber", "subscription +-execution-push"),
    (PUBSUB, "pubsub.publisher", "topic +-execution-dead-letters"),
    (PUBSUB, "storage.objectCreator", "bucket .-+-dead-letters"),
    (PUBSUB, "storage.legacyBucketReader", "bucket .-+-dead-letters"),
)
"""What every stack has."""

OF_KEY: Final[Mapping[str, tuple[Row, ...]]] = {
    "executor": (("+-api", "run.invoker", "service +-executor"),),
    "traces_endpoint": (
        ("+-api", "telemetry.tracesWriter", "project ."),
        ("+-execution", "telemetry.tracesWriter", "project ."),
        ("+-executor", "telemetry.tracesWriter", "project ."),
    ),
    "content": ((STORAGE, "pubsub.publisher", "topic +-objects"),),
}
"""Key of a stack file, without its namespace -> what a stack with it has beside; a row of an account that the stack
does not have is none of its rows."""


def expected(keys: Iterable[str], prefix: str = "holdfast") -> set[Row]:
    """The table of a stack that says these keys."""
    said = set(keys)
    rows = [*ALWAYS, *(row for key in said for row in OF_KEY.get(key, ()))]
    if "executor" not in said:
        rows = [row for row in rows if row[0] != "+-executor"]
    return {(account.replace("+", prefix), role, target.replace("+", prefix)) for account, role, target in rows}


def granted(world: World) -> set[Row]:
    """The table of a world."""
    return {
        (
            _account(str(one.inputs["member"]), world),
            str(one.inputs["role"]).removeprefix("roles/"),
            _target(*MEMBER_TYPES[one.type], one.inputs, world),
        )
        for one in world
        if one.type in MEMBER_TYPES
    }


def _target(kind: str, field: str, inputs: Mapping[str, object], world: World) -> str:
    name = short_name(str(inputs[field])).removesuffix(f"@{world.project}.iam.gserviceaccount.com")
    if kind == Kind.BUCKET:
        name = f".{name.removeprefix(world.project)}"
    return f"{kind} {'.' if name == world.project else name}"


def _account(member: str, world: World) -> str:
    email = member.removeprefix("serviceAccount:")
    name, _, domain = email.partition("@")
    if name == f"service-{world.number}":
        return f"agent:{domain.removesuffix('.iam.gserviceaccount.com')}"
    return name if domain == f"{world.project}.iam.gserviceaccount.com" else member
