"""Lower bounds on the time of any schedule."""

from collc.synthesis.bounds.bound import lower_bound, task_bound
from collc.synthesis.bounds.ideal import forget_demands, ideal_bound

__all__ = ["forget_demands", "ideal_bound", "lower_bound", "task_bound"]
