"""The synthesizer `overlapped`: reductions over balanced spanning trees, up and down at the same time."""

from collc.synthesis.overlapped.synthesizer import overlap, overlap_trees

__all__ = ["overlap", "overlap_trees"]
