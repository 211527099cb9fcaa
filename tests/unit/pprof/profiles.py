"""Hypothesis strategies for valid profiles."""

from __future__ import annotations

from hypothesis import strategies as st

from pprof.model import (
    CPU_PERIOD,
    CPU_TYPES,
    Function,
    Label,
    Line,
    Location,
    Mapping,
    Profile,
    Sample,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(0, 2**40)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    mappings = tuple(
        Mapping(id=id_, filename=draw(TEXT), build_id=draw(TEXT))
        for id_ in range(1, draw(st.integers(0, 2)) + 1)
    )
    functions = tuple(
        Function(
            id=id_,
            name=draw(TEXT),
            system_name=draw(TEXT),
            filename=draw(TEXT),
            start_line=draw(st.integers(0, 50)),
        )
        for id_ in range(1, draw(st.integers(1, 4)) + 1)
    )
    locations = tuple(
        Location(
            id=id_,
            mapping_id=draw(st.integers(0, len(mappings))),
            lines=tuple(
                draw(
                    st.lists(
                        st.builds(
                            Line,
                            function_id=st.integers(1, len(functions)),
                            line=st.integers(0, 99),
                            column=st.integers(0, 9),
                        ),
                        min_size=1,
                        max_size=2,
                    )
                )
            ),
        )
        for id_ in range(1, draw(st.integers(1, 5)) + 1)
    )
    labels = st.builds(Label, key=TEXT, text=TEXT, number=NUMBERS, unit=TEXT)
    samples = draw(
        st.lists(
            st.builds(
                Sample,
                location_ids=st.lists(st.integers(1, len(locations)), min_size=1, max_size=6).map(
                    tuple
                ),
                values=st.tuples(NUMBERS, NUMBERS),
                labels=st.lists(labels, max_size=2).map(tuple),
            ),
            max_size=8,
        )
    )
    return Profile(
        sample_types=CPU_TYPES,
        samples=tuple(samples),
        locations=locations,
        functions=functions,
        mappings=mappings,
        time_ns=draw(NUMBERS),
        duration_ns=draw(NUMBERS),
        period_type=CPU_PERIOD,
        period=draw(NUMBERS),
        comments=tuple(
            draw(st.lists(TEXT | st.just("idle_ns=5") | st.just("isoprof 1"), max_size=3))
        ),
        default_sample_type=draw(st.sampled_from(("", "samples", "cpu"))),
    )
