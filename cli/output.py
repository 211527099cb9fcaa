"""Where the bytes of a profile go: standard output unless it is a terminal, or a named file."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path


class NoPlace(Exception):  # noqa: N818 - told to a person as a usage error
    """The bytes cannot go there; found before anything is captured."""


def check(path: Path | None) -> None:
    """Find out before a capture whether its result can be written.

    Raises:
        NoPlace: standard output is a terminal, or the file's folder cannot be written.
    """
    if path is None:
        if sys.stdout.isatty():
            raise NoPlace(
                "a profile is binary and this is a terminal: add > FILE, or --output FILE"
            )
    elif not os.access(path.parent, os.W_OK) or path.is_dir():
        raise NoPlace(f"{path} cannot be written")


def write(data: bytes, path: Path | None) -> None:
    """Write everything; a named file appears whole, in one step, or stays as it was."""
    if path is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    # In the same folder, because a rename is one step only within one file system.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
