"""The planner behind HTTP: `collc serve`."""
