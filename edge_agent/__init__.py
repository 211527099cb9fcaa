"""The edge agent: one process per metal, which samples isolates already loaded there."""
