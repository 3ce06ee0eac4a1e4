"""From a scheduled module to an MSCCL program that keeps the limits of its runtime."""
