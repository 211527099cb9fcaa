"""Wire package edge."""
