"""The synthesizer `forest`: throughput-optimal spanning trees."""

from collc.synthesis.forest.synthesizer import forest, plan_forest

__all__ = ["forest", "plan_forest"]
