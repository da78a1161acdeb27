"""The SQL of the document store in PostgreSQL.

`keys` holds the order key of every top-level field as hexadecimal text, so that one comparison of bytes gives
Firestore's order and equality whatever the type.
"""

from __future__ import annotations

from typing import Final

from runtime.adapters.order_key import order_key, type_bounds
from runtime.ports.documents import Filter, Operator, Query, Value

STORE_CLOCK: Final = "clock_timestamp()"
"""The store's time: the server's, at the moment of the write or read, not of the transaction's begin."""

# One sequence for all versions: a document that is created again never has a version that it had before.
TABLE: Final = """
CREATE SEQUENCE IF NOT EXISTS documents_version;
CREATE TABLE IF NOT EXISTS documents (
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    keys jsonb NOT NULL,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (collection, id)
)
"""

CREATE: Final = """
INSERT INTO documents (collection, id, data, keys, version, updated_at)
VALUES ($1, $2, $3, $4, nextval('documents_version'), clock_timestamp())
ON CONFLICT DO NOTHING RETURNING version
"""
REPLACE: Final = """
UPDATE documents SET data = $3, keys = $4, version = nextval('documents_version'), updated_at = clock_timestamp()
WHERE collection = $1 AND id = $2 AND version = $5 RETURNING version
"""
DELETE: Final = "DELETE FROM documents WHERE collection = $1 AND id = $2 AND version = $3 RETURNING version"
GET: Final = """
SELECT id, data, version, updated_at, clock_timestamp() AS read_at FROM documents WHERE collection = $1 AND id = $2
"""
NOW: Final = "SELECT clock_timestamp()"
EXPIRE: Final = """
DELETE FROM documents WHERE collection = ANY($1) AND (keys ->> $2) COLLATE "C" BETWEEN $3 AND $4 RETURNING id
"""
_SELECT: Final = """
SELECT id, data, version, updated_at, (SELECT clock_timestamp()) AS read_at FROM documents
"""


def field_key(value: Value) -> str:
    """The order key of a value as it is stored in `keys`."""
    return order_key(value).hex()


def quoted(text: str) -> str:
    """A text as SQL literal. Only for names, which decide the plan; values are always parameters."""
    return "'" + text.replace("'", "''") + "'"


def key_expression(name: str) -> str:
    """The order key of a field; indexes and queries must spell it alike."""
    return f'((keys ->> {quoted(name)}) COLLATE "C")'


def select(query: Query, collection: str, store_clock: str = STORE_CLOCK) -> tuple[str, list[str]]:
    """The statement of a checked query, and its parameters.

    Args:
        query: what is asked.
        collection: its collection with the prefix.
        store_clock: SQL expression of the store's time.
    """
    parameters: list[str] = []
    conditions = [f"collection = {quoted(collection)}"]
    for condition in query.where:
        conditions += _comparison(condition, parameters)
    direction = "DESC" if query.descending else "ASC"
    order = f"id {direction}"
    if query.order_by is not None:
        conditions.append(f"{key_expression(query.order_by)} IS NOT NULL")
        order = f"{key_expression(query.order_by)} {direction}, {order}"
    start = _SELECT.replace(STORE_CLOCK, store_clock)
    return f"{start} WHERE {' AND '.join(conditions)} ORDER BY {order} LIMIT {query.limit}", parameters


def _comparison(condition: Filter, parameters: list[str]) -> list[str]:
    key = order_key(condition.value)
    first, end = type_bounds(key)
    bounds: list[tuple[str, bytes]]
    if condition.operator is Operator.EQUAL:
        bounds = [("=", key)]
    elif condition.operator in {Operator.LESS, Operator.LESS_OR_EQUAL}:
        bounds = [(">=", first), (condition.operator, key)]
    else:
        bounds = [(condition.operator, key), ("<", end)]
    expression = key_expression(condition.field)
    found = []
    for operator, bound in bounds:
        parameters.append(bound.hex())
        found.append(f"{expression} {operator} ${len(parameters)}")
    return found
