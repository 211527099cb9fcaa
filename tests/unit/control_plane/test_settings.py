from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from control_plane.settings import Settings, SettingsInvalid, read


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
