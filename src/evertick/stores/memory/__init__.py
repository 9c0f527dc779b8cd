"""A ledger in memory: the reference that the other stores are compared with."""

from evertick.stores.memory.store import Contents, MemoryStore

__all__ = ["Contents", "MemoryStore"]
