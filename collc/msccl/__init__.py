"""MSCCL programs: threadblocks, channels and steps; lowering to them, reading and checking them."""
