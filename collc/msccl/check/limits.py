"""Limits of the runtimes (docs/msccl-contract.md, sections 4 and 5), and those of the check itself."""

from __future__ import annotations

from typing import Final

from collc.msccl.check.model import MAX_COUNT

MAX_STEPS: Final = {"executor": 64, "old": 256, "rccl": 64}
"""Steps of one threadblock, by profile."""
MAX_THREADBLOCKS: Final = {"executor": 1024, "old": 216, "rccl": 64}
"""Threadblocks of one GPU, by profile."""
MAX_CHANNELS: Final = {"executor": 32, "old": 32, "rccl": 128}
"""By profile."""
MAX_PEERS_PER_CHANNEL: Final = 32
"""Threadblocks of one GPU that send, and that receive, on one channel."""
MAX_FUSED: Final = 16
"""Consecutive `re` steps that the runtimes fuse."""
MAX_AWAITED: Final = 127
"""The last threadblock that a dependency of the executor can name."""
MAX_NODES: Final = 4095
"""Elements that one rank keeps of a file."""
MAX_CHILDREN: Final = 1024
"""Children of one element."""
MAX_OFFSET: Final = 2**15 - 1
MAX_BUFFER: Final = MAX_OFFSET + MAX_COUNT
"""Chunks of one buffer that steps can reach."""
MAX_SCRATCH_BYTES: Final = 80 * 2**30
"""Scratch of one GPU: all memory of an A100 or H100, the largest GPUs that the old runtime supports."""
LARGE_SCRATCH_BYTES: Final = 2**30
"""Scratch of one GPU above which a file for the old runtime gets a warning."""
MAX_CHUNKS: Final = 2**24
"""Chunks in the buffers of all GPUs together; a limit of the check, not of the runtimes."""
