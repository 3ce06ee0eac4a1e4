"""Chooses among the other synthesizers by demand and network."""
