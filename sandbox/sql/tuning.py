"""Settings of the local PostgreSQL: small enough for a laptop, and durable."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Reached through its socket only.
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        # What was acknowledged survives a crash of the machine.
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        # One machine, no replica, few rows.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "256MB",
        "min_wal_size": "64MB",
        "shared_buffers": "64MB",
        "io_method": "sync",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "dynamic_shared_memory_type": "mmap",
        # Each instance of each service keeps a few connections.
        "max_connections": "400",
        # A killed or stopped instance must not hold a lock for long.
        "client_connection_check_interval": "500ms",
        "idle_in_transaction_session_timeout": "60s",
        "log_checkpoints": "off",
        "timezone": "UTC",
    }
)


def arguments(socket_dir: str) -> list[str]:
    """The settings as command-line arguments of `postgres`."""
    pairs = {**SETTINGS, "unix_socket_directories": socket_dir}
    return [part for name, value in pairs.items() for part in ("-c", f"{name}={value}")]
