"""Who a certificate's names say its holder is."""

from __future__ import annotations

import pytest

from contract import identity


@pytest.mark.parametrize(
    ("names", "holder", "metal"),
    [
        (["ams1-m1.metal.isoprof.internal"], "ams1-m1.metal.isoprof.internal", "ams1-m1"),
        (["control-plane.isoprof.internal"], identity.CONTROL_PLANE, None),
        # A name of the machine beside it says nothing here.
        (["m1.ams.example.net", "m1.metal.isoprof.internal"], "m1.metal.isoprof.internal", "m1"),
        (["m1.metal.isoprof.internal"] * 2, "m1.metal.isoprof.internal", "m1"),
        # Two at once are nobody.
        (["m1.metal.isoprof.internal", "m2.metal.isoprof.internal"], None, None),
        (["m1.metal.isoprof.internal", identity.CONTROL_PLANE], None, None),
        (["*.metal.isoprof.internal"], "*.metal.isoprof.internal", None),
        (["a.b.metal.isoprof.internal"], "a.b.metal.isoprof.internal", None),
        (["M1.metal.isoprof.internal"], "M1.metal.isoprof.internal", None),
        (["m1\n.metal.isoprof.internal"], "m1\n.metal.isoprof.internal", None),
        (["m1.metal.isoprof.internal.example.net"], None, None),
        (["m1.metal.notisoprof.internal"], None, None),
        ([], None, None),
    ],
)
def test_one_name_of_ours_is_the_holder(
    names: list[str], holder: str | None, metal: str | None
) -> None:
    assert identity.holder(names) == holder
    assert identity.metal_of(identity.holder(names)) == metal


def test_a_metal_is_found_again_by_its_name() -> None:
    assert identity.metal_of(identity.of_metal("iad1-m2")) == "iad1-m2"
