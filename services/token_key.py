"""The key that tokens are stored with: a file of 32 bytes, mode 0600, made once."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from typing import TYPE_CHECKING

from control_plane.credentials import KEY_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from control_plane.settings import Settings


class KeyFileWrong(Exception):  # noqa: N818 - a statement about a file
    """The file is no key, or others can read it."""


def read(configured: Settings) -> bytes:
    """Read the key, made when there is none. Of several that make it at once one wins.

    Raises:
        KeyFileWrong: naming the file, and what is wrong with it.
    """
    path = configured.token_key_file or configured.data_dir / "token.key"
    try:
        if not path.exists():
            _make(path)
        return _checked(path)
    except OSError as error:
        raise KeyFileWrong(f"{path}: {error.strerror or error}") from error


def _checked(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        key = file.read(KEY_BYTES + 1)
    if mode & 0o077:
        raise KeyFileWrong(f"{path}: others may read it (mode {mode:04o}); make it 0600")
    if len(key) != KEY_BYTES:
        raise KeyFileWrong(f"{path}: a token key is {KEY_BYTES} bytes")
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Linked into place whole: nobody reads half a key, and nobody's key replaces another's.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".token.key.") as made:
        made.write(secrets.token_bytes(KEY_BYTES))
        made.flush()
        os.fsync(made.fileno())
        try:
            path.hardlink_to(made.name)
        except FileExistsError:
            return
