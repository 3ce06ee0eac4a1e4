"""Earliest-arrival pathfinding on the TEN."""

from collc.synthesis.pccl.synthesizer import pccl

__all__ = ["pccl"]
