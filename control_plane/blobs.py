"""Where profile bytes are kept: a directory, memory, S3, GCS or Azure. All is read back."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions
from obstore.store import LocalStore, from_url

from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from pathlib import Path

    from obstore.store import ObjectStore

_RETRY_AFTER_S = 2.0


class Blobs:
    """One bucket or directory. Keys are written once, each by its content's hash."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def at_url(cls, url: str) -> Blobs:
        """Open ``file:///…``, ``memory:///``, ``s3://…``, ``gs://…`` or ``az://…``."""
        if url.startswith("file:"):
            return cls(from_url(url, mkdir=True, automatic_cleanup=True))
        return cls(from_url(url))

    @classmethod
    def in_directory(cls, path: Path) -> Blobs:
        """Open a local directory, made when it is missing."""
        return cls(LocalStore(path, mkdir=True, automatic_cleanup=True))

    async def put(self, key: str, data: bytes) -> None:
        """Write, and read back: a store may answer well and have kept other bytes.

        Raises:
            Fault: store_unavailable.
        """
        try:
            await obstore.put_async(self._store, key, data)
        except (exceptions.BaseError, OSError) as error:
            raise _unavailable() from error
        await self.get(key, hashlib.sha256(data).hexdigest())

    async def get(self, key: str, sha256: str) -> bytes:
        """Read, and check the bytes against their hash.

        Raises:
            Fault: store_unavailable, when they are missing, unreadable or not the same.
        """
        try:
            answer = await obstore.get_async(self._store, key)
            data = bytes(await answer.bytes_async())
        except (exceptions.BaseError, OSError) as error:
            raise _unavailable() from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _unavailable()
        return data

    async def probe(self) -> None:
        """Return when the store answers; what is asked for need not be there.

        Raises:
            Fault: store_unavailable.
        """
        try:
            await obstore.head_async(self._store, "probe")
        except (exceptions.NotFoundError, FileNotFoundError):
            return
        except (exceptions.BaseError, OSError) as error:
            raise _unavailable() from error

    async def delete(self, key: str) -> None:
        """Delete; what is not there is deleted already.

        Raises:
            Fault: store_unavailable.
        """
        try:
            await obstore.delete_async(self._store, key)
        except (exceptions.NotFoundError, FileNotFoundError):
            return
        except (exceptions.BaseError, OSError) as error:
            raise _unavailable() from error


def _unavailable() -> Fault:
    return Fault(
        Reason.STORE_UNAVAILABLE,
        "The profile store does not answer at the moment.",
        retry_after_s=_RETRY_AFTER_S,
    )
