"""Which isolate an order takes: the busiest that is of that account alone and free. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from edge_agent.hold import busy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from contract.messages import Actor, Order
    from edge_agent.activity import Activity
    from edge_agent.hold import Holds
    from edge_agent.runtime import Target


def choose(
    order: Order,
    targets: Iterable[Target],
    activity: Activity,
    holds: Holds,
    now_ms: int,
    *,
    had: Collection[str] = (),
) -> Target:
    """The isolate to sample. The caller takes its hold without awaiting anything in between.

    Args:
        had: isolates that the order's session has captured here already; not once more, but for
            an actor, which lives in one.

    Raises:
        Fault: not_loaded, also for an isolate shared with another account and when the session had
            all there are; no_recent_execution when
            it is loaded but never ran; actor_inactive; isolates_busy with the time until one is
            free.
    """
    own = [target for target in targets if _is_of(target, order)]
    if not own:
        raise Fault(Reason.NOT_LOADED, "No isolate of this version is loaded on this metal.")
    if order.actor is not None:
        own = _with_actor(own, order.actor, activity, now_ms)
    by_id = {target.isolate_id: target for target in own}
    ran = activity.busiest(by_id, now_ms)
    if not ran:
        raise Fault(
            Reason.NO_RECENT_EXECUTION, "The version is loaded on this metal but never ran here."
        )
    if order.actor is None:
        ran = [isolate_id for isolate_id in ran if isolate_id not in had]
        if not ran:
            raise Fault(
                Reason.NOT_LOADED,
                "The session has captured every isolate of this version on this metal.",
            )
    held = {isolate_id: holds.held_ms(isolate_id, now_ms) for isolate_id in ran}
    free = [isolate_id for isolate_id in ran if not held[isolate_id]]
    if not free:
        raise busy("Every isolate of this version here is being captured.", min(held.values()))
    if holds.full:
        raise busy("This metal takes no more captures now.", holds.first_end_ms(now_ms))
    return by_id[free[0]]


def _is_of(target: Target, order: Order) -> bool:
    # A shared isolate's profile would show one account what another runs.
    return (
        target.version_id == order.version_id
        and target.worker_id == order.worker_id
        and target.accounts == (order.account_id,)
    )


def _with_actor(
    targets: Sequence[Target], actor: Actor, activity: Activity, now_ms: int
) -> list[Target]:
    serving = [target for target in targets if actor.namespace_id in target.namespaces]
    if not serving:
        raise Fault(Reason.ACTOR_INACTIVE, "This version does not serve the namespace here.")
    found: list[tuple[int, Target]] = []
    for target in serving:
        seen = activity.actor(target.isolate_id, actor.actor_id, now_ms)
        if seen and namespace_of(target, seen.entrypoint) in (actor.namespace_id, None):
            found.append((seen.idle_ms, target))
    if not found:
        raise Fault(Reason.ACTOR_INACTIVE, "The object did not run here lately.")
    # It lives in one isolate at a time: the one where it ran last.
    return [min(found, key=lambda pair: pair[0])[1]]


def namespace_of(target: Target, entrypoint: str | None) -> str | None:
    """The namespace of an actor of this class; None when the class does not tell which."""
    fitting = [
        namespace_id
        for namespace_id, class_name in target.namespaces.items()
        if entrypoint in (class_name, None)
    ]
    return fitting[0] if len(fitting) == 1 else None
