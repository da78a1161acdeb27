"""A document store as one caller's declared situation allows it: its grant and its database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from runtime.ports.documents import Document, Documents, Key, Query, StoreMisconfigured, Version, Write
from sandbox.world import DATABASE, Kind, Target, World

log = structlog.get_logger()

ROLE: Final = "roles/datastore.user"
_SUFFICIENT: Final = (ROLE, "roles/datastore.owner")


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """What the program declares for one caller of the document store.

    Attributes:
        databases: names of the declared databases.
        missing_grant: text of the grant that the caller lacks; None where it holds it.
    """

    databases: tuple[str, ...]
    missing_grant: str | None = None

    @classmethod
    def declared(cls, world: World, account: str) -> StoreAccess:
        """The situation of a service account, by its email."""
        missing = world.missing_grant(f"serviceAccount:{account}", _SUFFICIENT, Target(Kind.PROJECT, world.project))
        return cls(tuple(row.name for row in world.of_type(DATABASE)), None if missing is None else str(missing))


class DeclaredDocuments:
    """Refuses what Firestore would refuse the caller; everything else goes to the store.

    Args:
        inner: the store.
        database: the one that the caller asks for.
        access: what is declared for the caller.
    """

    def __init__(self, inner: Documents, database: str, access: StoreAccess) -> None:
        self._inner = inner
        self._refusal = _refusal(database, access)
        if access.missing_grant is not None:
            log.warning("grant_missing", detail=access.missing_grant)

    async def get(self, key: Key, *, timeout: float = 10) -> Document | None:
        """See Documents."""
        self._check()
        return await self._inner.get(key, timeout=timeout)

    async def commit(self, writes: Sequence[Write], *, timeout: float = 10) -> list[Version]:
        """See Documents."""
        self._check()
        return await self._inner.commit(writes, timeout=timeout)

    async def query(self, query: Query, *, timeout: float = 10) -> list[Document]:
        """See Documents."""
        self._check()
        return await self._inner.query(query, timeout=timeout)

    async def close(self) -> None:
        """See Documents."""
        await self._inner.close()

    def _check(self) -> None:
        if self._refusal is not None:
            raise StoreMisconfigured(self._refusal)


def _refusal(database: str, access: StoreAccess) -> str | None:
    # The caller's right is judged first, as Google does: without it nothing is said about the database.
    if access.missing_grant is not None:
        return access.missing_grant
    if database not in access.databases:
        declared = ", ".join(access.databases) or "none"
        return f"database {database} does not exist; declared: {declared}"
    return None
