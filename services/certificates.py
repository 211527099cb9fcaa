"""Makes an authority and the certificates of a fleet: ``python -m services.certificates``.

    python -m services.certificates make DIRECTORY METAL...     what is missing or near its end
    python -m services.certificates add-authority DIRECTORY     one more, which issues from now on
    python -m services.certificates drop-authorities DIRECTORY  all but the newest

For development all of DIRECTORY stays on one machine. For a fleet DIRECTORY stays where nothing
else runs, and each holder gets its own folder of it: ``control-plane/``, ``metals/METAL/``.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from contract import certificates, identity
from contract.certificates import CertificatesInvalid, Files
from contract.ids import METAL_ID
from services import issuing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from services.issuing import Issued

AUTHORITY_DAYS = 5 * 365
HOLDER_DAYS = 365
# Of a certificate's life; with less left it is made anew.
_RENEW_BELOW = 1 / 6


class CertificatesFailed(RuntimeError):  # noqa: N818 - what happened
    """The message says what to do about it."""


def of_control_plane(directory: Path) -> Files:
    """Name the control plane's files in a directory made here."""
    return files(directory / "control-plane")


def of_metal(directory: Path, metal_id: str) -> Files:
    """Name the files of a metal's agent in a directory made here."""
    return files(directory / "metals" / metal_id)


def files(folder: Path) -> Files:
    """Name the files in one holder's folder."""
    return Files(
        certificate=folder / "certificate.pem",
        key=folder / "key.pem",
        authority=folder / "authority.pem",
    )


def make(
    directory: Path,
    metals: Iterable[str],
    *,
    now: datetime,
    days: int = HOLDER_DAYS,
    anew: bool = False,
) -> list[Path]:
    """Make what is missing or near its end: the authority, the control plane's, each metal's.

    What is good stays. Trust goes first: every holder believes a new authority before anybody shows
    a certificate of it.

    Args:
        days: how long a new certificate is valid.
        anew: make every holder's certificate anew, also a good one.

    Returns:
        The folders whose certificate is new.

    Raises:
        CertificatesFailed: the directory is somebody else's, or can't be written.
    """
    holders = [(of_control_plane(directory), identity.CONTROL_PLANE)]
    holders += [(of_metal(directory, metal), identity.of_metal(metal)) for metal in metals]
    renewed = []
    with _locked(directory):
        authorities = _kept_authorities(directory)
        if not authorities or _near_its_end(authorities[-1].certificate, now):
            authorities = [*authorities, issuing.authority(now=now, days=AUTHORITY_DAYS)]
            authorities = [one for one in authorities if now < one.certificate.not_valid_after_utc]
            _keep_authorities(directory, authorities)
        _spread_trust(directory, holders, authorities)
        for own, name in holders:
            if anew or not _good(own, name, authorities, now):
                issued = issuing.issue(authorities[-1], name, now=now, days=days)
                # A crash between the two leaves a pair that does not fit, which is made anew.
                _write(own.key, issued.key_pem())
                _write(own.certificate, issued.pem())
                renewed.append(own.certificate.parent)
    return renewed


def add_authority(directory: Path, *, now: datetime) -> None:
    """Add an authority that issues from now on; those before it are still believed.

    Raises:
        CertificatesFailed: as ``make``.
    """
    with _locked(directory):
        authorities = [*_kept_authorities(directory)]
        authorities.append(issuing.authority(now=now, days=AUTHORITY_DAYS))
        _keep_authorities(directory, authorities)
        _spread_trust(directory, _present(directory), authorities)


def drop_authorities(directory: Path, *, now: datetime) -> None:
    """Believe the newest authority alone.

    Raises:
        CertificatesFailed: a holder still shows a certificate of an older one; or as ``make``.
    """
    with _locked(directory):
        authorities = _kept_authorities(directory)[-1:]
        holders = _present(directory)
        late = [
            own.certificate.parent
            for own, name in holders
            if not _good(own, name, authorities, now)
        ]
        if late:
            told = ", ".join(str(folder) for folder in late)
            raise CertificatesFailed(f"not of the newest authority, make them anew first: {told}")
        _keep_authorities(directory, authorities)
        _spread_trust(directory, holders, authorities)


def _present(directory: Path) -> list[tuple[Files, str]]:
    found = [(of_control_plane(directory), identity.CONTROL_PLANE)]
    found += [
        (files(folder), identity.of_metal(folder.name))
        for folder in sorted((directory / "metals").glob("*"))
    ]
    return [one for one in found if one[0].certificate.exists()]


def _good(own: Files, name: str, authorities: list[Issued], now: datetime) -> bool:
    try:
        certificates.read(own, name=name, at=now)
        shown = x509.load_pem_x509_certificate(own.certificate.read_bytes())
    except (CertificatesInvalid, OSError, ValueError):
        return False
    return not _near_its_end(shown, now) and any(one.issued(shown) for one in authorities)


def _near_its_end(certificate: x509.Certificate, now: datetime) -> bool:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now < life * _RENEW_BELOW


def _kept_authorities(directory: Path) -> list[Issued]:
    """Read the authorities, oldest first: one file each, certificate and key in it together."""
    found = []
    for path in sorted((directory / "authority").glob("*.pem")):
        try:
            pem = path.read_bytes()
            key = load_pem_private_key(pem, password=None)
            if not isinstance(key, EllipticCurvePrivateKey):
                raise CertificatesFailed(f"{path} holds a key of another kind than is made here")
            found.append(issuing.Issued(certificate=x509.load_pem_x509_certificate(pem), key=key))
        except (OSError, ValueError, TypeError) as error:
            raise CertificatesFailed(f"{path} is no authority with its key: {error}") from None
    return sorted(found, key=lambda one: one.certificate.not_valid_before_utc)


def _keep_authorities(directory: Path, authorities: list[Issued]) -> None:
    kept = {_authority_path(directory, one): one for one in authorities}
    for path, one in kept.items():
        if not path.exists():
            _write(path, one.pem() + one.key_pem())
    for path in (directory / "authority").glob("*.pem"):
        if path not in kept:
            path.unlink()


def _authority_path(directory: Path, one: Issued) -> Path:
    return directory / "authority" / f"{one.certificate.serial_number:040x}.pem"


def _spread_trust(
    directory: Path, holders: list[tuple[Files, str]], authorities: list[Issued]
) -> None:
    trusted = b"".join(one.pem() for one in authorities)
    everyone = {own.authority for own, _ in [*holders, *_present(directory)]}
    for path in sorted(everyone):
        if not path.exists() or path.read_bytes() != trusted:
            _write(path, trusted)


def _write(path: Path, data: bytes) -> None:
    """Write whole or not at all; never readable by others, not even for a moment."""
    for folder in (path.parent.parent, path.parent):
        # One by one: a mode is for the last of a chain only.
        folder.mkdir(exist_ok=True, mode=0o700)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep two processes from making two authorities."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise CertificatesFailed(f"can't be written: {error}") from error


@dataclass(frozen=True, kw_only=True)
class _Given:
    directory: Path
    metals: tuple[str, ...] = ()
    days: int = HOLDER_DAYS
    anew: bool = False
    work: Callable[[_Given], None]


def _make(given: _Given) -> None:
    for folder in make(
        given.directory, given.metals, now=datetime.now(UTC), days=given.days, anew=given.anew
    ):
        print(folder)


def _metal_id(text: str) -> str:
    if not METAL_ID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no metal's id")
    return text


def _days(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= AUTHORITY_DAYS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {AUTHORITY_DAYS}")
    return int(text)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m services.certificates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("make")
    part.add_argument("directory", type=Path)
    part.add_argument("metals", nargs="*", type=_metal_id, default=())
    part.add_argument("--days", type=_days, default=HOLDER_DAYS)
    part.add_argument("--anew", action="store_true", help="replace good certificates too")
    part.set_defaults(work=_make)
    part = parts.add_parser("add-authority")
    part.add_argument("directory", type=Path)
    part.set_defaults(work=lambda given: add_authority(given.directory, now=datetime.now(UTC)))
    part = parts.add_parser("drop-authorities")
    part.add_argument("directory", type=Path)
    part.set_defaults(work=lambda given: drop_authorities(given.directory, now=datetime.now(UTC)))
    given = _Given(**vars(parser.parse_args()))
    try:
        given.work(given)
    except CertificatesFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
