"""A fleet's certificates as they are made: whose they are, who may read them, when they go."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509

from contract import certificates, identity
from contract.certificates import CertificatesInvalid
from services.certificates import (
    AUTHORITY_DAYS,
    HOLDER_DAYS,
    CertificatesFailed,
    add_authority,
    drop_authorities,
    make,
    of_control_plane,
    of_metal,
)

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, tzinfo=UTC)
METALS = ("ams1-m1", "ams1-m2")


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*.pem"))
    }


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def authorities(directory: Path) -> list[Path]:
    return sorted((directory / "authority").iterdir())


def test_everybody_gets_a_certificate_of_their_own_name(tmp_path: Path) -> None:
    made = make(tmp_path, METALS, now=NOW)
    assert [path.name for path in made] == ["control-plane", *METALS]
    certificates.read(of_control_plane(tmp_path), name=identity.CONTROL_PLANE, at=NOW)
    for metal in METALS:
        own = of_metal(tmp_path, metal)
        certificates.read(own, name=identity.of_metal(metal), at=NOW)
        with pytest.raises(CertificatesInvalid, match="must name"):
            certificates.read(own, name=identity.CONTROL_PLANE, at=NOW)
        names = certificate(own.certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        assert names.value.get_values_for_type(x509.DNSName) == [identity.of_metal(metal)]
        # No file of a holder's lets anybody issue.
        assert b"PRIVATE" not in own.authority.read_bytes()


def test_nobody_else_may_read_what_is_made(tmp_path: Path) -> None:
    make(tmp_path / "made", METALS, now=NOW)
    for path in (tmp_path / "made").rglob("*"):
        if path.suffix == ".pem":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        elif path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_second_start_uses_what_is_there(tmp_path: Path) -> None:
    make(tmp_path, METALS, now=NOW)
    before = contents(tmp_path)
    assert make(tmp_path, METALS, now=NOW + timedelta(days=200)) == []
    assert contents(tmp_path) == before
    # Another metal is made beside them, and theirs stay.
    assert make(tmp_path, ["iad1-m1"], now=NOW) == [tmp_path / "metals" / "iad1-m1"]
    assert contents(tmp_path).items() > before.items()


def test_what_is_near_its_end_is_made_anew(tmp_path: Path) -> None:
    make(tmp_path, METALS, now=NOW)
    before = contents(tmp_path)
    later = NOW + timedelta(days=HOLDER_DAYS - 30)
    assert len(make(tmp_path, METALS, now=later)) == 3
    (authority,) = authorities(tmp_path)
    assert authority.read_bytes() == before[f"authority/{authority.name}"]
    assert certificate(of_metal(tmp_path, "ams1-m1").certificate).not_valid_after_utc > later


def test_an_authority_near_its_end_is_followed_while_it_is_still_believed(tmp_path: Path) -> None:
    make(tmp_path, METALS, now=NOW)
    later = NOW + timedelta(days=AUTHORITY_DAYS - 30)
    make(tmp_path, ["ams1-m1"], now=later)
    assert len(authorities(tmp_path)) == 2
    # Also who was not made anew believes the new one.
    for own in (of_control_plane(tmp_path), *(of_metal(tmp_path, metal) for metal in METALS)):
        assert len(x509.load_pem_x509_certificates(own.authority.read_bytes())) == 2
    make(tmp_path, METALS, now=NOW + timedelta(days=AUTHORITY_DAYS + 1))
    assert len(authorities(tmp_path)) == 2
    assert len(make(tmp_path, METALS, now=later, anew=True)) == 3


@pytest.mark.parametrize("lost", ["key.pem", "certificate.pem", "authority.pem"])
@pytest.mark.parametrize("how", ["gone", "empty", "another's"])
def test_half_a_set_is_mended(tmp_path: Path, lost: str, how: str) -> None:
    """As a crash between two files, or a hand, may leave it."""
    make(tmp_path, METALS, now=NOW)
    path = tmp_path / "metals" / "ams1-m1" / lost
    if how == "gone":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes((tmp_path / "control-plane" / lost).read_bytes())
    make(tmp_path, METALS, now=NOW)
    certificates.read(of_metal(tmp_path, "ams1-m1"), name=identity.of_metal("ams1-m1"), at=NOW)


def test_a_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    for place in ("here", "there"):
        make(tmp_path / place, METALS, now=NOW)
    for name in ("key.pem", "certificate.pem"):
        theirs = (tmp_path / "there" / "metals" / "ams1-m1" / name).read_bytes()
        (tmp_path / "here" / "metals" / "ams1-m1" / name).write_bytes(theirs)
    assert make(tmp_path / "here", METALS, now=NOW) == [tmp_path / "here" / "metals" / "ams1-m1"]


def test_authorities_change_one_step_after_the_other(tmp_path: Path) -> None:
    make(tmp_path, METALS, now=NOW)
    (old,) = authorities(tmp_path)
    shown = of_metal(tmp_path, "ams1-m1").certificate.read_bytes()
    add_authority(tmp_path, now=NOW + timedelta(minutes=1))
    assert len(authorities(tmp_path)) == 2
    # Believed by all before any certificate changes; and nothing is dropped that is still shown.
    assert of_metal(tmp_path, "ams1-m1").certificate.read_bytes() == shown
    with pytest.raises(CertificatesFailed, match="make them anew"):
        drop_authorities(tmp_path, now=NOW)
    make(tmp_path, METALS, now=NOW + timedelta(minutes=2), anew=True)
    drop_authorities(tmp_path, now=NOW + timedelta(minutes=3))
    (new,) = authorities(tmp_path)
    assert new != old
    assert of_metal(tmp_path, "ams1-m2").authority.read_bytes() in new.read_bytes()


def test_an_authority_that_can_t_be_read_is_never_replaced(tmp_path: Path) -> None:
    make(tmp_path, METALS, now=NOW)
    (path,) = authorities(tmp_path)
    path.write_text("spoilt")
    with pytest.raises(CertificatesFailed, match="no authority"):
        make(tmp_path, METALS, now=NOW)
    assert path.read_text() == "spoilt"
