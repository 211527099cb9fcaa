from setup import gen


def test_generated_code_is_what_the_protos_give() -> None:
    assert gen.stale() == []
