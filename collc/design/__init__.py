"""The design of networks: which bandwidth each dimension should have for given workloads and constraints.

Won et al., LIBRA: Enabling Workload-Aware Multi-Dimensional Network Topology Optimization for Distributed Training of
Large AI Models (ISPASS 2024). Bandwidths are in GB/s (1 GB = 1e9 bytes), times in ns, costs in dollars.
"""
