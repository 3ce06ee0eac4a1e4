"""Files that describe machines (NCCL, drivers, InfiniBand, Slurm, simulators), read into `.coll` programs."""
