"""Property tests here are judged by what they find, never by how long a loaded machine takes."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("unhurried")
