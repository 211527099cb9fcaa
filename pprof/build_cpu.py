"""From V8's CPU profile to ours: stacks ending in the hot line, billed by the attribution rule.

Meta frames stay where V8 gives them: ``(program)`` and ``(garbage collector)`` are stacks of one
frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pprof import comments, model
from pprof.attribution import bill
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileInvalid, within
from pprof.cpu_tree import ROOT, Tree
from pprof.places import TRUNCATED, Places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pprof.cpu_tree import Slice


def profile(
    slices: Sequence[bytes],
    context: comments.Context,
    started_at_ns: int,
    window_ns: int,
    sampling_interval_us: int,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> model.BuiltProfile:
    """Build one profile from the slices of one capture, merged by stack.

    Pure and CPU-bound: run it off the event loop.

    Args:
        slices: V8 ``Profiler.Profile`` JSON each, bare or inside the protocol reply; empty bytes
            for a slice that gave nothing.
        window_ns: from the first start to the last stop.

    Raises:
        ProfileInvalid: a slice is no CPU profile.
        ProfileTooLarge: a bound was passed that can't be met by cutting.
    """
    if sampling_interval_us <= 0:
        raise ProfileInvalid("the sampling interval must be above 0")
    within(sum(map(len, slices)), "max_bytes", bounds.max_bytes)
    places = Places(context.version, bounds)
    tree = Tree(places, bounds)
    read = [tree.read(data) for data in slices]
    counts, cpu_ns, idle_ns = _billed(read, len(tree.parents), sampling_interval_us)
    stacks = _Stacks(tree, places, bounds)
    samples = tuple(
        model.Sample(location_ids=location_ids, values=values)
        for index, count in enumerate(counts)
        if count and index != ROOT
        for location_ids, values in stacks.of(index, count, cpu_ns[index])
    )
    mappings, functions, locations = places.tables()
    taken = sum(counts) - counts[ROOT]
    truncated = comments.truncations(
        context.truncated, f"max_depth={bounds.max_depth}" if stacks.cut else ""
    )
    told = _told(taken, idle_ns, truncated, len(slices), places.repaired)
    return model.BuiltProfile(
        profile=model.Profile(
            sample_types=model.CPU_TYPES,
            samples=samples,
            locations=locations,
            functions=functions,
            mappings=mappings,
            time_ns=started_at_ns,
            duration_ns=window_ns,
            period_type=model.CPU_PERIOD,
            period=sampling_interval_us * 1000,
            comments=comments.write(context, told),
            default_sample_type="cpu",
        ),
        samples=taken,
        idle_ns=idle_ns,
        truncated=truncated,
    )


def _told(
    taken: int, idle_ns: int, truncated: str, slices: int, repaired: int
) -> dict[str, object]:
    told: dict[str, object] = {
        "slices": slices,
        "samples": taken,
        "idle_ns": idle_ns,
        **comments.verdict(taken),
    }
    if not taken:
        told["note"] = "nothing was sampled in the window"
    if truncated:
        told["truncated"] = truncated
    if repaired:
        told["repaired_strings"] = repaired
    return told


def _billed(
    slices: Sequence[Slice], nodes: int, interval_us: int
) -> tuple[list[int], list[int], int]:
    """Samples and CPU nanoseconds per node of the tree, and the time in which nothing ran."""
    counts, cpu_ns, idle_ns = [0] * nodes, [0] * nodes, 0
    billed = bill([piece.deltas_us for piece in slices], interval_us)
    for piece, weights in zip(slices, billed.weights_ns, strict=True):
        for node, weight in zip(piece.nodes[1:], weights[1:], strict=True):
            counts[node] += 1
            cpu_ns[node] += weight
        passed_us = sum(delta for delta in piece.deltas_us[1:] if delta > 0)
        idle_ns += (passed_us + piece.rest_us) * 1000 - sum(weights)
    # What hit the root ran nothing: its share is idle time too.
    return counts, cpu_ns, max(0, idle_ns + cpu_ns[ROOT])


class _Stacks:
    """Walks from a leaf to the root; remembers whether any stack had to be cut."""

    def __init__(self, tree: Tree, places: Places, bounds: Bounds) -> None:
        self.cut = False
        self._tree = tree
        self._places = places
        self._bounds = bounds
        self._samples = 0
        self._frames = 0
        self._starts: dict[int, int] = {}
        self._callers: dict[int, tuple[int, ...]] = {ROOT: ()}

    def of(
        self, leaf: int, count: int, cpu_ns: int
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, int]]]:
        """The stacks of one leaf, one per hot line, with their part of its samples and time."""
        function, caller = self._tree.functions[leaf], self._tree.parents[leaf]
        ticks = self._tree.ticks[leaf]
        if self._places.placed(function):
            lines, above = function, self._above(caller)
            lead: tuple[int, ...] = ()
        else:
            # Native code has no lines: V8 gives the line of the JavaScript that called it.
            lines, above = self._tree.functions[caller], self._above(self._tree.parents[caller])
            lead = (self._start(function),)
            if ticks and (caller == ROOT or not self._places.placed(lines)):
                ticks = None
        if not ticks:
            yield self._within((self._start(function), *self._above(caller))), (count, cpu_ns)
            return
        for line, part, part_ns in shared_out(count, cpu_ns, ticks):
            stack = (*lead, self._places.location(lines, line), *above)
            yield self._within(stack), (part, part_ns)

    def _start(self, function: int) -> int:
        known = self._starts.get(function)
        if known is None:
            known = self._starts[function] = self._places.location(function)
        return known

    def _above(self, node: int) -> tuple[int, ...]:
        """Locations from a node that called to the root: of callers only the first line is known.

        One frame more than is allowed is kept, to tell that there were more.
        """
        found = self._callers.get(node)
        if found is not None:
            return found
        functions, parents, starts = self._tree.functions, self._tree.parents, self._starts
        stack: list[int] = []
        at: int = node
        while (known := self._callers.get(at)) is None and len(stack) <= self._bounds.max_depth:
            function = functions[at]
            stack.append(starts.get(function) or self._start(function))
            at = parents[at]
        found = (*stack, *(known or ()))[: self._bounds.max_depth + 1]
        self._callers[node] = found
        return found

    def _within(self, stack: tuple[int, ...]) -> tuple[int, ...]:
        deepest = self._bounds.max_depth
        if len(stack) > deepest:
            self.cut = True
            stack = (*stack[: deepest - 1], self._start(self._places.named(TRUNCATED)))
        self._samples += 1
        self._frames += len(stack)
        within(self._samples, "max_samples", self._bounds.max_samples)
        within(self._frames, "max_frames", self._bounds.max_frames)
        return stack


def shared_out(count: int, cpu_ns: int, ticks: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Share samples over lines in proportion to their ticks, then time by those samples.

    Both sums come out exactly; a line that gets no whole sample gets no time and is left out.
    """
    if len(ticks) == 1:
        yield next(iter(ticks)), count, cpu_ns
        return
    lines = sorted(line for line, hits in ticks.items() if hits)
    if not lines:
        lines, ticks = [0], {0: 1}
    parts = _proportional(count, [ticks[line] for line in lines])
    times = _proportional(cpu_ns, parts)
    for line, part, part_ns in zip(lines, parts, times, strict=True):
        if part:
            yield line, part, part_ns


def _proportional(whole: int, weights: Sequence[int]) -> list[int]:
    """Largest remainder: integers in proportion to the weights whose sum is the whole."""
    if len(weights) == 1:
        return [whole]
    over = sum(weights)
    parts = [whole * weight // over for weight in weights]
    missing = whole - sum(parts)
    order = sorted(range(len(weights)), key=lambda index: (-(whole * weights[index] % over), index))
    for index in order[:missing]:
        parts[index] += 1
    return parts
