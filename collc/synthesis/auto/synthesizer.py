"""Picks synthesizers by demand and network, tries a few, keeps the best schedule and notes why.

- Rings, tori, hypercubes and the like: the translations of one NPU's schedule, first of all (symmetric).
- What few NPUs hold and many want (broadcast, reduce): spread rarest first (swarm), which also serves switches.
- Chunks with many who want them go by matching (tacos), others by search (pccl); where the first
  does not meet the bound and the problem is small, the other is tried too.
- All-Reduce also by cores that exchange their partials (exchange).
- Reductions also by balanced trees, up and down at once (overlapped).
- Networks of several dimensions: one after another (hierarchical, themis).
- Networks with switches: the switches as they are; where no buffer is limited, also direct links in their place.
- Where switches add up: all contributions go up to one, and the sum from there to all (in_network).
- Tiny problems that are above the bound: whether Z3 finds a shorter schedule (exact).
- Where links are pipelined: also the best schedule for links that are busy until arrival, made earlier (retiming).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.auto.candidates import Candidate, TriedCandidates, candidates, time_of
from collc.synthesis.exact import exact, exact_sums
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.retiming import retimed
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel

TINY_NPUS, TINY = 9, 6_000
"""NPUs, and chunks x links x steps, up to which Z3 is asked for something shorter."""

PROOF = 1_000_000
"""What Z3 may spend on each number of steps, about half a second; counted so that all machines find the same."""


def auto(module: Module, effort: Effort) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes.

    What the module's schedule has already is planned round. The network of the result is the unwound
    one where that is better; the notes say so, and also where Z3 proves that nothing is shorter.
    Raises what the synthesizers raise where none finds a schedule, NoSchedule where `effort.stop` asks to stop before.
    """
    tried = _tried(module, effort)
    if tried.best is None:
        stopped = NoSchedule(Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time"))
        raise tried.failure or stopped
    name, built = tried.best
    why = "meets the bound" if tried.is_met(built.network) else "is the best of those tried"
    if tried.proved:
        why = "is optimal: nothing is shorter, as Z3 has shown"
    notes = [*module.notes, *tried.notes, f"auto: chose {name}, which {why}"]
    if built.network.unwound and not module.network.unwound:
        notes.append(UNWOUND)
    algorithm = f"{module.algorithm}+{name}" if module.algorithm else name
    return replace(built, algorithm=algorithm, seed=effort.seed, notes=tuple(notes))


UNWOUND = (
    "the switches are unwound: links, schedule, time and bound are those of the unwound network, "
    "on which direct links stand for the switches; 'synthesize pccl()' plans for the switches as they are"
)


def _tried(module: Module, effort: Effort) -> TriedCandidates:
    """What all candidates find, as long as something shorter is possible."""
    tried = TriedCandidates(module.network)
    stores_too = module.model is LinkModel.PIPELINED and module.schedule is None
    if stores_too and effort.time_limit is not None:
        _store(module, effort, tried)  # it takes less time than what comes next
    for candidate in chain(candidates(module, effort, tried), _shorter(module, effort, tried)):
        if effort.stop():
            break
        _try(tried, candidate, effort)
    if stores_too and effort.time_limit is None and not effort.stop():
        _store(module, effort, tried)
    return tried


def _try(tried: TriedCandidates, candidate: Candidate, effort: Effort) -> None:
    """Takes a candidate unless nothing on its network can be shorter than the best."""
    if tried.is_done(candidate.network):
        return
    began = monotonic()
    effort.progress(0.0, f"auto: {candidate.name}")
    tried.take(candidate)
    effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")


def _store(module: Module, effort: Effort, tried: TriedCandidates) -> None:
    """Takes the best of the model that stores, which is valid as it stands, and made earlier."""
    if tried.is_met(module.network):
        return
    stored = _tried(replace(module, model=LinkModel.STORE), effort)
    if stored.best is not None:
        name, built = stored.best
        _try(tried, Candidate(f"{name}, stored, made earlier", built.network, lambda: retimed(built)), effort)


def _shorter(module: Module, effort: Effort, tried: TriedCandidates) -> Iterator[Candidate]:
    """Exact search for a schedule that is shorter than the best so far, where that is a small question."""
    network, sizes = module.network, np.unique(module.demand.chunks.size)
    steps_alike = module.model is LinkModel.STORE and len(np.unique(network.kind)) == 1 and len(sizes) == 1
    if module.schedule is not None or not steps_alike or network.has_switches or len(network.npus) > TINY_NPUS:
        return
    if tried.best is None:
        return
    time = time_of(tried.best[1])
    step = int(Clock.of(network, module.demand, module.model).total[network.kind[0], 0])
    if len(module.demand.chunks) * network.link_count * (time // step) > TINY:
        return
    most = time // step - 1
    if len(split(module)) == 1:
        yield Candidate(
            "exact", network, lambda: join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF)))
        )
    else:
        yield Candidate("exact", network, lambda: replace(module, schedule=exact_sums(module, effort, most, PROOF)))
