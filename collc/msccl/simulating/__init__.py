"""Files for MSCCL runtimes as tasks of the simulator."""
