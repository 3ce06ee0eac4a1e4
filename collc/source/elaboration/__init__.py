"""Elaboration: evaluates syntax trees to networks, demands and requests."""
