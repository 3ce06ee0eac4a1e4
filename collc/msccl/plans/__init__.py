"""From a scheduled module to an MSCCL++ execution plan."""
