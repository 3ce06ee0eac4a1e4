"""From a scheduled module to an MSCCL program that fits its runtime."""
