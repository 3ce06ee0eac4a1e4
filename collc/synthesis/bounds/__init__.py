"""Lower bounds on the time of any schedule."""

from collc.synthesis.bounds.bound import lower_bound, task_bound
from collc.synthesis.bounds.ideal import ideal_bound

__all__ = ["ideal_bound", "lower_bound", "task_bound"]
