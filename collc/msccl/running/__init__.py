"""Execution of MSCCL files and MSCCL++ plans on real data, in NumPy."""
