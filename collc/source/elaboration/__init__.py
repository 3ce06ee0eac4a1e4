"""Evaluation: from syntax trees to networks, demands and requests."""
