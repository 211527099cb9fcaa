"""The REST edge: one listener, one envelope, one table of problems."""
