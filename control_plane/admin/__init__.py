"""The operators' edge: a listener of its own, tokens of its own, every write audited."""
