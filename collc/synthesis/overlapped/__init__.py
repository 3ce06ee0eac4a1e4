"""Reductions over balanced spanning trees, up and down at once."""

from collc.synthesis.overlapped.synthesizer import overlap, overlapped

__all__ = ["overlap", "overlapped"]
