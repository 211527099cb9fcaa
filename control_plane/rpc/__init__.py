"""The gRPC edge: the gateway agents report to, and the client that gives them orders."""
