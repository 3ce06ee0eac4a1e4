"""The synthesizer `overlapped`: reductions over balanced spanning trees, up and down at the same time."""

from collc.synthesis.overlapped.synthesizer import overlap, overlapped

__all__ = ["overlap", "overlapped"]
