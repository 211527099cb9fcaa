"""Version 1 of the wire package control; fields are only ever added."""
