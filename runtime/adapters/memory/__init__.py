"""Adapters that keep everything in this process: for tests and for tools, with the promises of the real ones."""

from runtime.adapters.memory.documents import MemoryDocuments

__all__ = ["MemoryDocuments"]
