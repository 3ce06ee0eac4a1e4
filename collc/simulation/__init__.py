"""Replay of schedules: when things happen, and how loaded links are."""

from collc.simulation.replay import Replay, replay

__all__ = ["Replay", "replay"]
