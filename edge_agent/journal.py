"""Open captures on disk: what a killed agent left running, and the count of its starts."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.messages import CaptureKey

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One capture that was accepted and whose end was not told yet."""

    key: CaptureKey
    isolate_id: str
    accepted_at_ns: int


class Journal:
    """One small file per open capture. Every method waits for the disk: not for the event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, entry: Entry) -> None:
        """Write it down, so that it survives a kill or a crash from here on.

        Raises:
            OSError: it could not be kept; then the capture must not begin.
        """
        told = {
            "version": VERSION,
            "session_id": entry.key.session_id,
            "capture": entry.key.capture,
            "isolate_id": entry.isolate_id,
            "accepted_at_ns": entry.accepted_at_ns,
        }
        self._write(self._path(entry.key), json.dumps(told))

    def close(self, key: CaptureKey) -> None:
        """Its end was told, or nobody wants to hear of it any more."""
        self._path(key).unlink(missing_ok=True)

    def read(self) -> tuple[Entry, ...]:
        """What was open when the agent ended. A file that can't be read is set aside by name."""
        entries = []
        for path in sorted(self._folder.glob("*.capture")):
            try:
                told = json.loads(path.read_text(encoding="utf-8"))
                entry = Entry(
                    key=CaptureKey(
                        session_id=str(told["session_id"]), capture=int(told["capture"])
                    ),
                    isolate_id=str(told["isolate_id"]),
                    accepted_at_ns=int(told["accepted_at_ns"]),
                )
            except (OSError, ValueError, KeyError, TypeError):
                path.replace(path.with_suffix(".unreadable"))
                continue
            entries.append(entry)
        return tuple(entries)

    def next_epoch(self, now_ms: int) -> int:
        """A number above that of every start before, whatever the machine's clock says by now."""
        path = self._folder / "epoch"
        try:
            before = int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            before = 0
        epoch = max(before + 1, now_ms)
        self._write(path, str(epoch))
        return epoch

    def _path(self, key: CaptureKey) -> Path:
        return self._folder / f"{key.session_id}-{key.capture}.capture"

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        # The rename is on disk only once the folder is.
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
