from __future__ import annotations

import pytest

from cli import settings

OURS = {
    "ISOPROF_API_BASE_URL": "http://127.0.0.1:8787/client/v4/",
    "ISOPROF_API_TOKEN": "ours",
    "ISOPROF_ACCOUNT_ID": "a" * 32,
}
THEIRS = {
    "CLOUDFLARE_API_BASE_URL": "https://api.example/client/v4",
    "CLOUDFLARE_API_TOKEN": "theirs",
    "CLOUDFLARE_ACCOUNT_ID": "b" * 32,
}


def test_our_names_come_first_and_the_slash_goes() -> None:
    loaded = settings.load(THEIRS | OURS)
    assert (loaded.base_url, loaded.token) == ("http://127.0.0.1:8787/client/v4", "ours")
    assert loaded.account_id == "a" * 32


def test_the_names_of_other_tools_do_as_well() -> None:
    loaded = settings.load({**THEIRS, "ISOPROF_API_TOKEN": " "})
    assert (loaded.base_url, loaded.token) == ("https://api.example/client/v4", "theirs")


def test_everything_missing_is_named_at_once() -> None:
    with pytest.raises(settings.MissingSettings) as caught:
        settings.load({"ISOPROF_API_TOKEN": "x"})
    lines = str(caught.value).splitlines()
    assert [line.split()[0] for line in lines] == ["ISOPROF_API_BASE_URL", "ISOPROF_ACCOUNT_ID"]
    assert "CLOUDFLARE_ACCOUNT_ID" in lines[1]


def test_a_token_is_not_shown() -> None:
    assert "ours" not in repr(settings.load(OURS))
