"""Wire definitions with their generated code beside them; `make gen` makes it again."""
