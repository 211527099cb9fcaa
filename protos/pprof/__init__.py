"""Wire package pprof."""
