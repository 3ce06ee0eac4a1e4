"""Reductions as copy-only phases: splitting a demand, and inverting schedules in time."""
