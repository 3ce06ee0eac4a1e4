"""Which groupings of steps into threadblocks a plan tries, and how often."""

from __future__ import annotations

import pytest

from collc.base.diagnostics import SourceError
from collc.msccl.plans import plan as plans
from collc.msccl.plans.operations import Json
from tests.msccl.lowering import ring_all_reduce

TOO_MANY = plans.PLAN_SEMAPHORES + 1


def json_of(longest: int, semaphores: int) -> Json:
    """A plan with one threadblock of some operations."""
    block = {"ops": [{}] * longest, "channels": [], "remote_buffer_refs": []}
    gpu = {"threadblocks": [block], "semaphores": [{}] * semaphores, "channels": [], "remote_buffers": []}
    return {"gpus": [gpu]}


class Forms:
    """Forms whose plans have given operations, by shares, and semaphores; tried: (form, shares) in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *forms: tuple[dict[int, int], int]) -> None:
        self.tried: list[tuple[int, int]] = []
        self._forms = forms
        monkeypatch.setattr(plans, "_block_forms", lambda _start: map(self._form, range(len(forms))))
        monkeypatch.setattr(plans, "repeat", lambda program: program)
        monkeypatch.setattr(plans, "depend", lambda program: program)
        monkeypatch.setattr(plans, "_plan", lambda program, _options, _node: json_of(*program))

    def _form(self, number: int) -> plans._BlockForm:
        longest, semaphores = self._forms[number]

        def divide(shares: int) -> tuple[int, int]:
            self.tried.append((number, shares))
            return longest[max(least for least in longest if least <= shares)], semaphores

        return plans._BlockForm(divide, 1, max(longest))

    def plan(self) -> Json:
        return plans.plan_of(ring_all_reduce(4))


def test_threadblocks_that_stay_too_long_are_given_up_after_all_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms(monkeypatch, ({1: 105, 3: 90, 4: 80, 512: 75}, 0), ({1: 60}, 0))
    assert len(forms.plan()["gpus"][0]["threadblocks"][0]["ops"]) == 60
    assert forms.tried == [(0, 1), (0, 2), (0, 512), (1, 1)]


def test_more_shares_are_tried_if_all_of_them_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms(monkeypatch, ({1: 105, 3: 90, 4: 64, 512: 2}, 0))
    assert len(forms.plan()["gpus"][0]["threadblocks"][0]["ops"]) == 64
    assert [shares for _, shares in forms.tried] == [1, 2, 512, 4]


def test_only_what_lacks_semaphores_is_tried_again_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms(monkeypatch, ({1: 105, 512: 75}, 0), ({1: 70, 2: 60}, TOO_MANY))
    assert len(forms.plan()["gpus"][0]["semaphores"]) == TOO_MANY
    assert forms.tried == [(0, 1), (0, 2), (0, 512), (1, 1), (1, 1), (1, 2)]


def test_a_plan_that_lacks_semaphores_alone_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms(monkeypatch, ({1: 105, 512: 75}, 0), ({1: 60}, TOO_MANY))
    assert len(forms.plan()["gpus"][0]["semaphores"]) == TOO_MANY
    assert forms.tried == [(0, 1), (0, 2), (0, 512), (1, 1)]


def test_the_limit_that_is_exceeded_least_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = Forms(monkeypatch, ({1: 105, 512: 75}, 0))
    with pytest.raises(SourceError, match="75 operations in one threadblock"):
        forms.plan()
    assert forms.tried == [(0, 1), (0, 2), (0, 512)]
