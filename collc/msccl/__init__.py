"""MSCCL programs: threadblocks, channels and steps; lowering schedules to them, and checking files."""
