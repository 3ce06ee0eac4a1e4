"""One function in plain Python and compiled: the same result, compiled once."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple

import numpy as np
import pytest

from collc.base.interrupts import OutOfTime, ended_after
from collc.kernels.compiled import (
    compile_kernel,
    fields,
    inline,
    interruptible,
    numbers,
    trailing_zeros,
    word_shape,
    words_of,
)
from collc.kernels.overlapped_trees import grow


def test_compiled_once_per_process():
    assert compile_kernel(grow) is compile_kernel(grow)


def test_numba_is_loaded_by_the_first_compilation_only():
    program = "import sys, collc.kernels.compiled\nprint('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == (
        "False\n"
    )


@pytest.mark.parametrize("bit", [0, 1, 31, 62, 63])
def test_trailing_zeros(bit):
    assert trailing_zeros((0b101 << bit) & (2**64 - 1)) == bit
    word = np.array([1 << bit], np.uint64).view(np.int64)
    assert compile_kernel(_lowest)(word) == _lowest(word.tolist()) == bit


def _lowest(words):
    return trailing_zeros(words[0])


@inline
def _first_above(values, least):
    for value in values:
        if value > least:
            return value
    return -1


def _next_of_each(values):
    found = 0
    for value in values:
        found = 10 * found + _first_above(values, value)
    return found


def test_inlined_functions_give_the_same():
    values = [1, 3, 2]
    assert compile_kernel(_next_of_each)(np.array(values)) == _next_of_each(values) == 293


def _plus(value, more):
    return value + more


def _twice_plus(value, more):
    return _plus(value, 3) + _plus(value, more)


def test_a_constant_argument_takes_the_code_for_any_number(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))  # so that it compiles
    twice = compile_kernel(_twice_plus)
    assert twice(1, 2) == 7
    assert len(twice.py_func.__globals__["_plus"].signatures) == 1


_Sizes = namedtuple("_Sizes", "rows columns")


def _last_cell(at, more):
    return at.rows * at.columns + _plus(at.columns, more)


def test_numbers_by_name_are_one_pointer_in_compiled_code():
    kernel = compile_kernel(_last_cell)
    assert kernel(fields(_Sizes, (3, 1 << 40), True), 7) == _last_cell(fields(_Sizes, (3, 1 << 40), False), 7)
    assert kernel.signatures[0][0].dtype.names == _Sizes._fields


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
def test_sets_of_words(count):
    bits = np.random.default_rng(count).random((5, count)) < 0.5
    for compile_it in (False, True):
        words, shift, mask = word_shape(count, compile_it)
        rows = words_of(bits, compile_it)
        assert len(rows) == 5 * words
        for row in range(5):
            for number in range(count):
                word = int(rows[row * words + (number >> shift)])
                assert (word >> (number & mask) & 1) == bits[row, number]
    assert word_shape(count, compile_it=False)[0] == 1


def test_numbers_are_lists_for_plain_python():
    values = np.arange(3)
    assert numbers(values, compile_it=False) == [0, 1, 2]
    assert numbers(values, compile_it=True) is values


def _count_up(values, rounds):
    for number in range(rounds):
        values[number % 7] += number
        if values[number % 5] < 0:
            raise ValueError("negative")
    return values[0]


def test_a_signal_ends_the_waiting_for_compiled_code():
    run = interruptible(_count_up)
    assert run(np.zeros(7, np.int64), 15) == 0 + 7 + 14 == _count_up([0] * 7, 15)
    with pytest.raises(ValueError, match="negative"):
        run(np.full(7, -9, np.int64), 15)
    values = np.zeros(7, np.int64)
    with pytest.raises(OutOfTime), ended_after(0.0, 0.05):
        run(values, 2_000_000_000)
    assert values.sum() < 10**18, "all rounds were waited for"
