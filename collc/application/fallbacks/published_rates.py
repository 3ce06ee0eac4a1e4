"""How often parts fail and what a failure costs, as others have published it.

Llama 3: Grattafiori et al., The Llama 3 Herd of Models (arXiv 2407.21783), table 5. FT-HSDP: Meta (arXiv 2602.00277),
abstract and figure 2. RSC-1: Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters
(HPCA 2025, arXiv 2410.21680). HPN: Qian et al., Alibaba HPN (SIGCOMM 2024), section 2.3. NCCL: version 2.30,
src/transport/net_ib/p2p_resiliency.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Final, Literal

Cause = Literal["network", "gpu", "node", "other"]
CAUSES: Final[Sequence[Cause]] = ("network", "gpu", "node", "other")
"""A NIC, a cable or a switch; one GPU; a host with all its GPUs; what no plan helps with, as software."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run of some days on some GPUs, of which each node has the same number."""

    days: int
    gpus: int
    node: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return timedelta(self.days).total_seconds()


LLAMA: Final = PublishedRun(days=54, gpus=16_384, node=8)
"""The run of Llama 3."""


@dataclass(frozen=True, slots=True)
class FailureRates:
    """name, source: who measured. daily: failures of 1,000 nodes in a day. shares: of the causes, as in `CAUSES`."""

    name: str
    source: str
    daily: float
    shares: Sequence[float]

    @property
    def cumulative_shares(self) -> Sequence[float]:
        """For each cause, the share of it and of those before."""
        return [*accumulate(self.shares)]

    def count(self, gpus: int, seconds: float) -> float:
        """The failures of some GPUs that are expected in some time."""
        return self.daily / 1000 * gpus / LLAMA.node * seconds / timedelta(1).total_seconds()


_CAUSES: Final = (
    35 + 7,  # switch or cable, NIC
    148 + 72 + 19 + 17 + 6 + 6,  # GPU, HBM3, SRAM, GPU processor, silent data corruption, thermal
    32 + 3 + 3 + 2 + 2 + 2 + 2,  # maintenance, SSD, power, chassis, IO board, CPU, memory
    54 + 7 + 2,  # software, NCCL watchdog, dependency
)
_TOTAL: Final = sum(_CAUSES)
_LLAMA_SHARES: Final = tuple(count / _TOTAL for count in _CAUSES)

RATES: Final[Sequence[FailureRates]] = (
    FailureRates(
        "Llama 3",
        f"{_TOTAL} interruptions of {LLAMA.gpus:,} H100 in {LLAMA.days} days (arXiv 2407.21783, table 5)",
        _TOTAL / LLAMA.days / (LLAMA.gpus / LLAMA.node) * 1000,
        _LLAMA_SHARES,
    ),
    FailureRates(
        "FT-HSDP",
        "678 interruptions of 32K GPUs: HBM3 and GPU 30.3 %, PCIe 18.0 % (here: the node), network 5.3 % "
        "(arXiv 2602.00277)",
        2.3,
        (0.053, 0.303, 0.18, 0.464),
    ),
    FailureRates("RSC-1", "A100, 11 months (arXiv 2410.21680); causes as in Llama 3", 6.5, _LLAMA_SHARES),
    FailureRates(
        "HPN",
        "0.057 % of the links between NIC and switch a month, and nothing else (SIGCOMM 2024, 2.3)",
        0.00057 / 30 * LLAMA.node * 1000,
        (1.0, 0.0, 0.0, 0.0),
    ),
)
"""The first one is that of pictures."""


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Up to some GPUs: seconds until a new communicator works, until a job runs again after a cold restart, and until
    NCCL has moved the traffic of a dead port to another one, its timeout for acknowledgements.
    """

    gpus: int
    communicator: float
    restart: float
    failover: float = 5


STARTS: Final[Sequence[StartTimes]] = (
    StartTimes(16_384, 17, 200),
    StartTimes(65_536, 100, 600),
    StartTimes(98_304, 200, 900),
)
"""FT-HSDP, figure 2; the failover is NCCL's."""


def start_times(gpus: int) -> StartTimes:
    """The times for the least published number of GPUs that is enough, else for the greatest."""
    return next((each for each in STARTS if gpus <= each.gpus), STARTS[-1])
