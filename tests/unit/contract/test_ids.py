"""The id of a Durable Object's name."""

from __future__ import annotations

import pytest

from contract import ids


def test_a_name_has_the_id_the_runtime_gives_it() -> None:
    """Source: workerd's own answer for this key and this name."""
    made = ids.actor_id_of("abc123", "foo")
    assert made == "b9fd1d28068e106b9e9dd2c5c48ac1a97e5467b0dad5f083d243cf0249e30d67"


@pytest.mark.parametrize("name", ["", "foo ", "Foo", "f\u00f6o", "\U0001f980" * 300])
def test_every_other_name_has_another_id_of_the_right_shape(name: str) -> None:
    made = ids.actor_id_of("abc123", name)
    assert ids.ACTOR_ID.fullmatch(made)
    assert made != ids.actor_id_of("abc123", "foo")
    assert made != ids.actor_id_of("abc124", name)
