"""The synthesizer `one_shot`: sums of small buffers on any network, for which every contribution travels by itself."""

from collc.synthesis.one_shot.synthesizer import one_shot

__all__ = ["one_shot"]
