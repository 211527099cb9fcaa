"""The control plane: who may profile what, where it runs now, and what became of it."""
