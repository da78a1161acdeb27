"""What goes wrong with the local PostgreSQL."""

from __future__ import annotations

from runtime.contract.errors import HoldfastError


class PostgresFailed(HoldfastError):
    """The local PostgreSQL is missing, does not start, or belongs to another sandbox."""

    code = "postgres_failed"
