"""What can keep the fleet from running, each with a message for the person who started it."""

from __future__ import annotations


class FleetFault(RuntimeError):  # noqa: N818 - the product's word for an error
    """The fleet can't run, or no longer does."""


class ToolMissing(FleetFault):
    """An npm package the fleet needs is not installed; the message says how to get it."""


class ChildFailed(FleetFault):
    """A process of the fleet ended, or stayed silent, when it should have been working."""


class NotSighted(FleetFault):
    """The control plane did not hear of some Workers with traffic in time; they are named."""


class TokenRefused(FleetFault):
    """The control plane does not know a kept token."""
