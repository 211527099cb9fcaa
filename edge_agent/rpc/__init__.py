"""The agent's gRPC edge: what it serves, and what it tells the gateway."""
