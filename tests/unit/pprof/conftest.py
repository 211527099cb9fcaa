"""Property tests here are judged by what they find, never by how long a loaded machine takes.

``make fuzz`` sets ISOPROF_FUZZ to how many examples each tries.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "fuzz",
    settings.get_profile("unhurried"),
    max_examples=int(os.environ.get("ISOPROF_FUZZ") or 100),
)
settings.load_profile("fuzz" if os.environ.get("ISOPROF_FUZZ") else "unhurried")
