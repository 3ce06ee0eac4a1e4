"""The synthesizer `tacos`: link-chunk matching on the TEN."""

from collc.synthesis.tacos.synthesizer import tacos

__all__ = ["tacos"]
