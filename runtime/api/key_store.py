"""Creating, listing and revoking stored keys."""

from __future__ import annotations

import msgspec

from runtime.api.api_key import KEY_NAME, KEY_NAME_RULE, Caller, KeyRecord, Scope, key_of, make_key, read_key
from runtime.api.fields import Fields
from runtime.api.json_value import decode, faults_of
from runtime.api.key_ring import KeyRing
from runtime.api.problem import Problem, unavailable
from runtime.api.run_store import CALL_SECONDS, TRIES
from runtime.contract import names
from runtime.ports.clock import Clock
from runtime.ports.documents import Create, DocumentExists, Documents, Query, Replace, StoreUnavailable, VersionMismatch

LISTED_KEYS = 1000


class KeyStore:
    """Stored keys.

    Args:
        documents: where they are.
        ring: told of revocations; its bootstrap keys are not stored and cannot be revoked here.
        clock: for the times in a record.
    """

    def __init__(self, documents: Documents, ring: KeyRing, clock: Clock) -> None:
        self._documents = documents
        self._ring = ring
        self._clock = clock

    async def create(self, body: bytes, by: Caller) -> tuple[KeyRecord, str]:
        """Creates a key from `{"name": ..., "scopes": [...]}`, and returns it once with its secret.

        Raises:
            Problem: 400, 422, 409 `key_exists`.
            StoreUnavailable: the key may be there, its secret is not known to anyone; revoke it and take another name.
        """
        name, scopes = _read(body)
        if self._ring.has_bootstrap(name):
            raise _exists(name)
        key, digest = make_key(name)
        record = KeyRecord(name=name, hash=digest, scopes=scopes, created_at=self._clock.now(), created_by=by.name)
        try:
            await self._documents.commit([Create(key_of(name), record.document())], timeout=CALL_SECONDS)
        except DocumentExists:
            raise _exists(name) from None
        except StoreUnavailable:
            if not await self._is_ours(record):
                raise
        return record, key

    async def list(self) -> list[KeyRecord]:
        """Stored keys by name, revoked ones included, at most LISTED_KEYS."""
        query = Query(names.API_KEYS, limit=LISTED_KEYS)
        return [read_key(document.data) for document in await self._documents.query(query, timeout=CALL_SECONDS)]

    async def revoke(self, name: str) -> None:
        """Revokes a key; a revoked one stays so.

        Raises:
            Problem: 404 `key_not_found`, 409 `key_is_bootstrap`.
            StoreUnavailable: the same call again is safe.
        """
        if self._ring.has_bootstrap(name):
            raise Problem(409, "key_is_bootstrap", f"the key {name} is a setting of the deployment; remove it there")
        for _ in range(TRIES):
            document = (
                await self._documents.get(key_of(name), timeout=CALL_SECONDS) if KEY_NAME.fullmatch(name) else None
            )
            if document is None:
                raise Problem(404, "key_not_found", f"no key {name!r} is stored")
            record = read_key(document.data)
            if record.revoked_at is None:
                revoked = msgspec.structs.replace(record, revoked_at=self._clock.now())
                write = Replace(document.key, revoked.document(), document.version)
                try:
                    await self._documents.commit([write], timeout=CALL_SECONDS)
                except VersionMismatch:
                    continue
            self._ring.forget(name)
            return
        raise unavailable("store_unavailable", f"the key {name} could not be revoked within {TRIES} tries")

    async def _is_ours(self, record: KeyRecord) -> bool:
        document = await self._documents.get(key_of(record.name), timeout=CALL_SECONDS)
        return document is not None and read_key(document.data).hash == record.hash


def _read(body: bytes) -> tuple[str, list[Scope]]:
    value = decode(body)
    faults = faults_of(value, exact=False)
    fields = Fields(value, faults)
    fields.only(("name", "scopes"))
    fields.need("name", KEY_NAME_RULE)
    name = fields.text("name", KEY_NAME, KEY_NAME_RULE) or ""
    scopes = fields.raw("scopes") if fields.has("scopes") else [Scope.RUNS.value]
    known = [scope.value for scope in Scope]
    if not isinstance(scopes, list) or not scopes or not all(isinstance(s, str) and s in known for s in scopes):
        fields.fault("scopes", f"must be a list of {' or '.join(known)}; default `{Scope.RUNS}`")
        scopes = []
    if faults:
        raise Problem(422, "invalid_request", "the key was not created", faults=faults)
    return name, sorted({Scope(scope) for scope in scopes})


def _exists(name: str) -> Problem:
    return Problem(409, "key_exists", f"the name {name} is taken, by a revoked key perhaps; take another")
