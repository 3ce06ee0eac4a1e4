"""Lower bounds on the time of any schedule."""

from collc.synthesis.bounds.bound import lower_bound, task_bound

__all__ = ["lower_bound", "task_bound"]
