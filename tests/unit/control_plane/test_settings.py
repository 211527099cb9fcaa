from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control_plane.settings import Settings, SettingsInvalid, read
from services.certificates import make, of_control_plane, of_metal


def test_nothing_set_is_usable() -> None:
    assert read({}) == Settings()


def test_what_is_set_counts() -> None:
    settings = read(
        {
            "DATABASE_URL": "postgresql://u:secret@h/d",
            "ISOPROF_DATA_DIR": "there",
            "ISOPROF_HTTP_LISTEN": "0.0.0.0:0",
            "ISOPROF_ROLES": "api, sweep",
            "ISOPROF_LEASE_MS": "5000",
        }
    )
    assert settings.data_dir == Path("there")
    assert settings.roles == {"api", "sweep"}
    assert settings.lease_ms == 5000


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SettingsInvalid) as told:
        read(
            {
                "ISOPROF_HTTP_LISTEN": "8787",
                "ISOPROF_GRPC_LISTEN": "h:70000",
                "ISOPROF_ROLES": "api,cook",
                "ISOPROF_LEASE_MS": "5s",
                "ISOPROF_MAX_ATTEMPTS": "0",
                "ISOPROF_LOG_LEVEL": "loud",
            }
        )
    assert len(str(told.value).splitlines()) == 6


def mistakes(**environ: str) -> list[str]:
    with pytest.raises(SettingsInvalid) as told:
        read(environ)
    return [line.partition(":")[0] for line in str(told.value).splitlines()]


def test_plain_text_is_asked_for_by_name_and_stays_on_this_machine() -> None:
    assert read({"ISOPROF_GRPC_PLAINTEXT": "loopback"}).tls is None
    assert mistakes(ISOPROF_GRPC_PLAINTEXT="yes") == ["ISOPROF_GRPC_PLAINTEXT"]
    outside = {"ISOPROF_GRPC_PLAINTEXT": "loopback", "ISOPROF_GRPC_LISTEN": "0.0.0.0:8788"}
    assert mistakes(**outside) == ["ISOPROF_GRPC_LISTEN"]
    # Where nothing speaks with agents, nothing is in the clear.
    assert read(outside | {"ISOPROF_ROLES": "api"}).grpc_listen == "0.0.0.0:8788"
    assert mistakes(ISOPROF_GRPC_PLAINTEXT="loopback", ISOPROF_GRPC_TLS_KEY="k") == [
        "ISOPROF_GRPC_TLS_KEY"
    ]


def test_certificates_are_named_whole_and_read(tmp_path: Path) -> None:
    make(tmp_path, ["ams1-m1"], now=datetime.now(UTC))
    own, other = of_control_plane(tmp_path), of_metal(tmp_path, "ams1-m1")
    names = ("certificate", "key", "authority")
    good = {f"ISOPROF_GRPC_TLS_{name.upper()}": str(getattr(own, name)) for name in names}
    assert read(good).tls == own
    assert mistakes(ISOPROF_GRPC_TLS_KEY="k") == [
        "ISOPROF_GRPC_TLS_CERTIFICATE",
        "ISOPROF_GRPC_TLS_AUTHORITY",
    ]
    wrong = good | {
        "ISOPROF_GRPC_TLS_CERTIFICATE": str(other.certificate),
        "ISOPROF_GRPC_TLS_AUTHORITY": str(tmp_path / "nothing"),
        "ISOPROF_POOL_SIZE": "0",
    }
    # The certificate names a metal, and the key is not its.
    assert mistakes(**wrong) == [
        "ISOPROF_POOL_SIZE",
        "ISOPROF_GRPC_TLS_AUTHORITY",
        "ISOPROF_GRPC_TLS_CERTIFICATE",
        "ISOPROF_GRPC_TLS_KEY",
    ]


def test_passwords_are_masked() -> None:
    shown = read({"DATABASE_URL": "postgresql://u:secret@h/d?password=secret"}).masked()
    assert "secret" not in str(shown)
    assert shown["database_url"] == "postgresql://u:***@h/d"


def test_every_field_is_explained() -> None:
    assert Settings.__doc__ is not None
    for field in fields(Settings):
        assert f"{field.name}: " in Settings.__doc__


def test_the_defaults_fit_each_other() -> None:
    settings = Settings()
    assert settings.lease_ms > 2 * settings.order_timeout_ms
    assert settings.capture_lease_ms > settings.agent_silent_ms
