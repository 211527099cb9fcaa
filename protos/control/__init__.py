"""Wire package control."""
