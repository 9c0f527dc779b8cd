"""A ledger in a folder of files, for one node without a database."""

from evertick.stores.files.store import FilesStore

__all__ = ["FilesStore"]
