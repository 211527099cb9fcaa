"""The metrics of one replica, in a registry of their own; names end in their unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from contract.messages import SliceHolds

_REQUEST_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_ORDER_S = (0.005, 0.02, 0.05, 0.1, 0.5, 1, 2, 5)
_HOLD_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)


class Metrics:
    """Counted where it happens; gauges over the database are set when somebody reads them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        told = self.registry
        self.requests = Histogram(
            "isoprof_http_request_seconds",
            "Requests by listener, method, route and status.",
            ("listener", "method", "route", "status"),
            buckets=_REQUEST_S,
            registry=told,
        )
        self.orders = Histogram(
            "isoprof_order_seconds",
            "From sending an order to its agent's answer, by what came of it.",
            ("outcome",),
            buckets=_ORDER_S,
            registry=told,
        )
        self.holds = Histogram(
            "isoprof_capture_hold_seconds",
            "How long isolates' locks were held, one observation a critical section.",
            buckets=_HOLD_S,
            registry=told,
        )
        self.uploads = Counter(
            "isoprof_uploads", "Profiles received, by outcome.", ("outcome",), registry=told
        )
        self.uploaded_bytes = Counter(
            "isoprof_uploaded_bytes", "Bytes of profiles stored.", registry=told
        )
        self.live_sessions = Gauge(
            "isoprof_live_sessions", "Sessions that go on, by state.", ("state",), registry=told
        )
        self.ended_sessions = Gauge(
            "isoprof_ended_sessions_last_hour",
            "Sessions made in the last hour that have ended, by state and reason.",
            ("state", "reason"),
            registry=told,
        )
        self.due_sessions = Gauge(
            "isoprof_due_sessions", "Sessions dispatch has to look at.", registry=told
        )
        self.agents = Gauge(
            "isoprof_agents", "Agents, by what is known of them.", ("state",), registry=told
        )
        self.pool_size = Gauge(
            "isoprof_database_pool_size", "Connections the pool may open.", registry=told
        )
        self.pool_in_use = Gauge(
            "isoprof_database_pool_in_use", "Connections in use.", registry=told
        )
        self.database_up = Gauge(
            "isoprof_database_up", "Whether the database answered.", registry=told
        )

    def stored(self, slices: Iterable[SliceHolds], *, size_bytes: int) -> None:
        """Count a profile that was stored, and the holds it cost its isolate."""
        self.uploads.labels("stored").inc()
        self.uploaded_bytes.inc(size_bytes)
        for one in slices:
            self.holds.observe(one.start_hold_us / 1e6)
            self.holds.observe(one.stop_hold_us / 1e6)
