"""Plans that are broken at random places, and whether the check of plans catches each."""

from __future__ import annotations

import json
import random
from functools import cache

from collc.msccl.check_plan import check_plan


def written(tmp_path, plan):
    """The file of a plan."""
    path = tmp_path / "plan.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps(plan))
    return path


class Broken:
    """A plan to be broken at a random place."""

    def __init__(self, plan: dict, draw: random.Random) -> None:
        self.plan, self.draw = plan, draw
        self.spots = [(gpu, tb, k) for gpu in plan["gpus"] for tb in gpu["threadblocks"] for k in range(len(tb["ops"]))]

    def pick(self, *names, when=lambda gpu, tb, k: True):
        """A random operation of a name, or None."""
        fitting = [spot for spot in self.spots if spot[1]["ops"][spot[2]]["name"] in names and when(*spot)]
        return self.draw.choice(fitting) if fitting else None

    def drop(self, *names, when=lambda gpu, tb, k: True):
        spot = self.pick(*names, when=when)
        return spot is not None and spot[1]["ops"].pop(spot[2]) is not None


class Breaks:
    """Kinds of breaks of some plans.

    plans: name -> a function that makes the plan. kinds: name -> (a change of a Broken, which says whether it could be
    made, and the checks of which one must fail).
    """

    def __init__(self, plans, kinds) -> None:
        self.plans, self.kinds = plans, kinds
        self.text_of = cache(lambda name: json.dumps(plans[name]()))

    def verdict(self, tmp_path, kind, name, seed):
        """The verdict about a plan that was broken; None if it could not be."""
        text, change = self.text_of(name), self.kinds[kind][0]
        mutant = json.loads(text)
        if not change(Broken(mutant, random.Random(f"{kind} {name} {seed}"))) or mutant == json.loads(text):
            return None
        return check_plan(written(tmp_path, mutant))

    def assert_caught(self, tmp_path, kind, seeds, least=1):
        """Every break of a kind is caught by one of its checks, with messages, and `least` could be made."""
        made = 0
        for name in self.plans:
            for seed in range(seeds):
                verdict = self.verdict(tmp_path, kind, name, seed)
                if verdict is None:
                    continue
                failed = {check for check, outcome in verdict.checks.items() if outcome == "failed"}
                assert failed & self.kinds[kind][1], (name, seed, failed)
                told = [finding for finding in verdict.findings if not finding.warning]
                assert all(finding.message and finding.code for finding in told)
                made += 1
        assert made >= least
