"""Version 1 of the wire package edge; fields are only ever added."""
