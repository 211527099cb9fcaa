"""Version 1 of the wire package pprof; fields are only ever added."""
