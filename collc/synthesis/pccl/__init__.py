"""Earliest-arrival pathfinding on the TEN."""

from collc.synthesis.pccl.way import pccl

__all__ = ["pccl"]
