"""Candidates for a network whose NPUs have limits: planned without these, and judged with them.

Each candidate is planned on the links as they are, and on links that share the rates of their NPUs in equal parts; its
transfers are then started anew as the limits allow (collc/synthesis/endpoints.py). So all times that are compared, and
that the notes show, count the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from collc.synthesis.auto.estimates import Candidate
from collc.synthesis.auto.shape import ProblemShape
from collc.synthesis.endpoints import RULES, networks_without_limits, retimed_for_endpoints
from collc.synthesis.reductions.compose import join
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.transform import unwound

RETIMED, RETIMED_ONCE = 90, 35
"""Work of starting a transfer anew, with all rules for that or with one of them."""

FEW: Final = 1_000
"""Transfers up to which all rules are tried on each candidate. Of larger schedules, only the best one is started anew
by all of them, at the end."""

ON_SHARED: Final = " on shared rates"
"""What the name of a candidate ends with that was planned on links that share the rates of their NPUs."""


def with_limits(module: Module, plan: Callable[[Module], list[Candidate]]) -> list[Candidate]:
    """The candidates that `plan` gives for a network without limits, judged on that of the module.

    Those on direct links in the place of switches come last.
    """
    found: list[Candidate] = []
    direct: Network | None = None
    for network, where in zip(networks_without_limits(module.network), ("", ON_SHARED), strict=False):
        free = replace(module, network=network)
        shape = ProblemShape(free)
        more = _retiming(int(shape.pairs * shape.hops))[1]
        for one in plan(free):
            judged = module.network
            if one.network.unwound and not judged.unwound:
                judged = direct = direct or unwound(judged)
            estimate = replace(one.estimate, work=one.estimate.work + more, near_ideal=False, whole=False)
            build = _judged(one, judged)
            name = one.name + where
            found.append(replace(one, name=name, network=judged, estimate=estimate, build=build, least=None))
    return sorted(found, key=lambda one: (one.network is direct, one.estimate.work / max(one.estimate.promise, 1.0)))


def _judged(candidate: Candidate, network: Network) -> Callable[[WorkMeter], Module]:
    """The synthesizer of a candidate, whose schedule is then started anew on a network with limits."""

    def build(meter: WorkMeter) -> Module:
        planned = join(candidate.build(meter))
        assert planned.schedule is not None
        rules, work = _retiming(len(planned.schedule))
        meter.add_setup(work)
        return retimed_for_endpoints(planned, network, rules)

    return build


def _retiming(transfers: int) -> tuple[int, int]:
    """By how many rules the transfers of a candidate are started anew, at most, and the work of that."""
    return (len(RULES), RETIMED * transfers) if transfers <= FEW else (1, RETIMED_ONCE * transfers)
