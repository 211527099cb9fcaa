"""What was taken, as the order to build it and as the manifest of its upload. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.messages import ProfileType, UploadManifest
from edge_agent.builder import BuildOrder
from edge_agent.sampler import HEAP_INTERVAL_BYTES
from pprof.comments import Context

if TYPE_CHECKING:
    from contract.messages import Order
    from edge_agent.builder import Built
    from edge_agent.runtime import Target
    from edge_agent.sampler import Sampled


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where captures are taken. ``product``: our own version, for the profiles' comments."""

    metal_id: str
    datacenter: str
    product: str
    max_captures: int


def build_order(order: Order, target: Target, sampled: Sampled, site: Site) -> BuildOrder:
    """What the builder needs, free of account identifiers."""
    is_cpu = order.profile_type is ProfileType.CPU
    return BuildOrder(
        profile_type=order.profile_type,
        slices=tuple(raw.data for raw in sampled.slices),
        intervals=sampled.intervals_us if is_cpu else (HEAP_INTERVAL_BYTES,),
        started_at_ns=sampled.started_at_ns,
        window_ns=sampled.window_ns,
        backing_store_bytes=sampled.backing_store_bytes,
        context=Context(
            isoprof=site.product,
            session=order.key.session_id,
            capture=order.key.capture,
            worker=target.worker_name,
            version=target.version_id,
            datacenter=site.datacenter,
            metal=site.metal_id,
            isolate=target.isolate_id,
            lock_start_ns=max(one.start_hold_us for one in sampled.holds) * 1000,
            lock_stop_ns=max(one.stop_hold_us for one in sampled.holds) * 1000,
            gaps_ns=sum(one.gap_us for one in sampled.holds) * 1000,
            truncated=sampled.truncated,
        ),
    )


def manifest(
    order: Order, target: Target, sampled: Sampled, built: Built, site: Site
) -> UploadManifest:
    """What the upload will be."""
    return UploadManifest(
        key=order.key,
        metal_id=site.metal_id,
        isolate_id=target.isolate_id,
        sha256=hashlib.sha256(built.data).hexdigest(),
        size_bytes=len(built.data),
        samples=built.samples,
        window_ms=sampled.window_ns // 1_000_000,
        slices=sampled.holds,
        truncated=built.truncated,
    )
