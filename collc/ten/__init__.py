"""The TEN IR: network, demand and schedule, and nothing else."""
