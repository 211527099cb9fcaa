"""Decisions are numbered without gaps, each once, as their titles and files say."""

from __future__ import annotations

from pathlib import Path

DECISIONS = Path(__file__).resolve().parents[2] / "docs" / "decisions"


def test_each_number_is_given_once() -> None:
    pages = sorted(DECISIONS.glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]}: ")
