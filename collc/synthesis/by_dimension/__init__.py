"""Synthesizers that work through a network dimension by dimension."""
