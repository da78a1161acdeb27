"""Settings of the document store, the same for every role that uses it."""

from __future__ import annotations

from typing import Final, TypedDict

from runtime.contract.settings import rules
from runtime.contract.settings.parse import EnvironmentReader

PREFIX: Final = "FIRESTORE_COLLECTION_PREFIX"


class StoreSettings(TypedDict):
    """The fields of this group, see WorkerSettings."""

    database: str
    collection_prefix: str
    store_retries: int


def read_store(env: EnvironmentReader) -> StoreSettings:
    """Reads the group."""
    database = env.text(
        "FIRESTORE_DATABASE",
        rules.DATABASE_RULE,
        "invalid_database",
        rules.is_database,
        "(default)",
        default="(default)",
    )
    prefix = env.optional(PREFIX) or ""
    if prefix and not rules.is_collection_id(f"{prefix}x"):
        env.refuse(PREFIX, "invalid_collection", rules.COLLECTION_RULE, "blue-")
    retries = env.number("FIRESTORE_MAX_RETRIES", 0, 20, 8)
    return StoreSettings(database=database, collection_prefix=prefix, store_retries=retries)


def read_collection(env: EnvironmentReader, name: str, default: str) -> str:
    """The name of a collection, without the prefix that the store adds."""
    prefix = env.optional(PREFIX) or ""
    if not rules.is_collection_id(f"{prefix}x"):
        prefix = ""  # its own fault, see read_store
    return env.text(
        name,
        rules.COLLECTION_RULE,
        "invalid_collection",
        lambda value: rules.is_collection_id(prefix + value),
        default,
        default=default,
    )


def render_store(settings: StoreSettings) -> dict[str, str]:
    """The variables that `read_store` reads back."""
    return {
        "FIRESTORE_DATABASE": settings["database"],
        "FIRESTORE_COLLECTION_PREFIX": settings["collection_prefix"],
        "FIRESTORE_MAX_RETRIES": str(settings["store_retries"]),
    }
