"""Profile bytes come back as they were written, or not at all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore

from contract.faults import Fault, Reason
from control_plane.blobs import Blobs

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"profile" * 100
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize("kind", ["directory", "url", "memory"])
async def test_what_is_put_is_got(kind: str, tmp_path: Path) -> None:
    blobs = {
        "directory": lambda: Blobs.in_directory(tmp_path / "deep" / "blobs"),
        "url": lambda: Blobs.at_url((tmp_path / "url").as_uri()),
        "memory": lambda: Blobs.at_url("memory:///"),
    }[kind]()
    for _ in range(2):
        await blobs.put("profiles/a/1.pprof", DATA)
    assert await blobs.get("profiles/a/1.pprof", SHA256) == DATA
    for _ in range(2):
        await blobs.delete("profiles/a/1.pprof")
    with pytest.raises(Fault) as gone:
        await blobs.get("profiles/a/1.pprof", SHA256)
    assert gone.value.reason is Reason.STORE_UNAVAILABLE


async def test_other_bytes_than_were_written_are_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    blobs = Blobs(store)
    await blobs.put("a", DATA)
    (tmp_path / "a").write_bytes(DATA[:-1])
    with pytest.raises(Fault) as changed:
        await blobs.get("a", SHA256)
    assert changed.value.reason is Reason.STORE_UNAVAILABLE


async def test_a_store_that_says_yes_and_keeps_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = obstore.put_async

    async def lies(store: MemoryStore, key: str, data: bytes) -> object:
        return await put(store, key, data[::-1])

    monkeypatch.setattr(obstore, "put_async", lies)
    with pytest.raises(Fault) as refused:
        await Blobs(MemoryStore()).put("a", DATA)
    assert refused.value.reason is Reason.STORE_UNAVAILABLE
