"""The synthesizer `exchange`: All-Reduce in which several NPUs form each sum together."""

from collc.synthesis.exchange.synthesizer import exchange

__all__ = ["exchange"]
