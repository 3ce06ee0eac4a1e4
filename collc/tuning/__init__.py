"""Which schedule for which size: protocol costs, ranges of sizes, and what NCCL would run, for comparison."""
