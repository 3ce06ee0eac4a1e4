"""What gives plans on request: a planner of this process or a server, with one set of keywords."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

Given = TypeVar("Given")


class PlanSource(ABC, Generic[Given]):
    """What `collc.Planner` and `collc.Client` have in common."""

    def plan(
        self,
        collective: str,
        *,
        npus: Sequence[int] | None = None,
        dead: str | Sequence[str] = (),
        slow: Mapping[str, str | float] | None = None,
        runtime: str | None = None,
        within: str | float | None = None,
        beside: Sequence[Mapping[str, Any]] = (),
        link_model: str | None = None,
        **options: Any,  # noqa: ANN401 (arguments of any collective)
    ) -> Given:
        """A checked schedule of a collective, and its files if there is a runtime.

        collective: a name of the standard library. npus: numbers of the members by rank, None for all. dead: names of
        parts that are dead, as "nic[3, 5]". slow: what is left of the bandwidth of others, by name: "25GB/s", or a
        share, as "1/2". runtime: "msccl", "mscclpp" or "run". within: a deadline, as "1s", after which the best
        schedule found so far is the answer and the search goes on behind; without one the answer depends on the request
        alone. beside: what runs at once, mappings with the keys collective, npus and options. options:
        arguments of the collective, as size and chunks (default: "auto").

        Raises UsageError or SourceError for a wrong request, NoSchedule if there is none or none in time; a client
        UsageError for both, CollcError if the server refuses, and OSError if it cannot be reached.
        """
        own = {"collective": collective, "npus": npus, "dead": dead, "slow": slow, "runtime": runtime, "beside": beside}
        return self._answer({**own, "link_model": link_model, "within": within, **options})

    @abstractmethod
    def _answer(self, values: dict[str, Any]) -> Given:
        """The answer to the keywords of `plan`."""
