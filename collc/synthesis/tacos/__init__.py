"""Link-chunk matching on the TEN: the way of synthesis and what it is made of."""

from collc.synthesis.tacos.synthesizer import tacos

__all__ = ["tacos"]
