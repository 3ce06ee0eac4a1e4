"""Functions that run in plain Python on small problems and compiled by Numba on large ones.

Loading Numba takes 0.2 s and compiling a kernel seconds, so small problems use neither: `runs_compiled` decides, for
all kernels by one number. Such a kernel is an undecorated function that indexes flat sequences only
(``row[device * width + column]``, not ``row[device, column]``): the caller passes lists to the function itself, which
is several times faster in plain Python than NumPy arrays, or arrays to ``compile_kernel(function)``. Both give the
same result.

A kernel that imports the names ``heappush`` and ``heappop`` has a list of tuples as its heap in plain Python, and an
array of rows when it is compiled (row_heap.py); one that calls ``heapq.heappush`` has a list in both.

Sets of numbers are sequences of words; number n is bit ``n & mask`` of word ``n >> shift``. Compiled code takes words
of 64 bits (int64, so the top one is the sign). In plain Python an int has any number of bits, so one word is the set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from functools import cache
from heapq import heappop, heappush
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collc.kernels.row_heap import lift, pop_row, push_row

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Fields = TypeVar("Fields", bound=tuple[Any, ...])

LOAD_TIME: Final = 300_000
"""Microseconds in which a process loads Numba and a kernel; a large one is compiled in 3 to 15 s, once per machine."""

MOST_PLAIN: Final = 2 * LOAD_TIME
"""Microseconds of plain Python up to which no kernel is compiled."""

STEP_TIME: Final = 6
"""Microseconds, about, that a step of a kernel takes in plain Python: an edge, a hop or a transfer that it looks at."""

BATCH: Final = 1 << 20
"""Steps of a loop between two looks at what may end it: 0.1 s compiled, some seconds in plain Python at most."""


def compile_kernel(function: Kernel) -> Kernel:
    """A function compiled by Numba with all functions of its module and of this folder that it calls, once per process.

    The machine code is cached on disk (NUMBA_CACHE_DIR). It is compiled again if the file of `function` or one of
    this folder changes.
    """
    _REQUESTED.add(function)
    return _compile(function)


def interruptible(function: Kernel) -> Kernel:
    """The function compiled, and run in a thread of its own while this one waits: a signal can end the waiting.

    For kernels that run for seconds. When the waiting ends by an exception, the thread goes on with what it was given
    until it is done or the process ends.
    """
    kernel = compile_kernel(function)

    def run(*arguments: object) -> object:
        from numba import typeof

        cast("Any", kernel).compile(tuple(map(typeof, arguments)))  # here: a compiler must not run when a process ends
        results: list[object] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(kernel(*arguments))
            except BaseException as error:  # the thread that waits raises it again
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return cast("Kernel", run)


def is_long(work: int) -> bool:
    """Whether a kernel runs compiled in a fresh process. work: microseconds that plain Python takes, about, in all."""
    return work > MOST_PLAIN


def runs_compiled(function: Callable[..., Any], work: int) -> bool:
    """Whether a kernel is to run compiled: for long work, or if this process has used it so before."""
    return is_long(work) or function in _REQUESTED


def version_of(function: Kernel, compile_it: bool) -> Kernel:
    """The kernel itself, or compiled."""
    return compile_kernel(function) if compile_it else function


def compiled_as(implementation: Callable[..., Any]) -> Callable[[Kernel], Kernel]:
    """A decorator: compiled code calls `implementation`, a function on arrays, if plain code calls the function.

    For data structures that plain Python has built in, or that other code shares.
    """

    def register(function: Kernel) -> Kernel:
        _IMPLEMENTATIONS[function] = implementation
        return function

    return register


_IMPLEMENTATIONS: dict[Callable[..., Any], Callable[..., Any]] = {heappush: push_row, heappop: pop_row}
_REQUESTED: set[Callable[..., Any]] = set()


def inline(function: Kernel) -> Kernel:
    """Marks a function whose calls are replaced by its body when it is compiled.

    A call in compiled code counts the references of all arrays that it is given, which takes 5 ns for each. For a
    function that is called once for each link that may double the time; for one with loops of its own, inlining costs.
    """
    function.inline = True
    return function


def without_references(function: Kernel) -> Kernel:
    """Marks a function that makes no arrays or lists and returns numbers: compiled, it counts no references at all."""
    function.without_references = True
    return function


for _each in (lift, push_row, pop_row):
    without_references(_each)


@cache
def _compile(function: FunctionType, from_python: bool = True) -> Callable[..., Any]:
    function = cast("FunctionType", _IMPLEMENTATIONS.get(function, function))
    if function is trailing_zeros:
        from numba.cpython.unsafe.numbers import trailing_zeros as intrinsic

        return intrinsic
    from collc.kernels.cached_jit import jit, jit_of_called

    known = function.__globals__
    called = {
        name: _compile(known[name], from_python=False)
        for name in set(_names(function.__code__))
        if known.get(name) is not function and _is_kernel(known.get(name), function.__module__)
    }
    own = FunctionType(function.__code__, {**known, **called}, function.__name__, function.__defaults__)
    own.__qualname__, own.__module__, own.__doc__ = function.__qualname__, function.__module__, function.__doc__
    inline = "always" if getattr(function, "inline", False) else "never"
    counts_references = not getattr(function, "without_references", False)
    return (jit if from_python else jit_of_called)(nogil=True, inline=inline, _nrt=counts_references)(own)


def _is_kernel(value: object, module: str) -> bool:
    """Whether a global of a module is a function that is compiled with those that call it."""
    if isinstance(value, FunctionType):
        return value.__module__ == module or value.__module__.startswith("collc.kernels.")
    return value is heappush or value is heappop


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a function uses, in its comprehensions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def numbers(values: NDArray[Any], compile_it: bool) -> MutableSequence[int]:
    """Values as a kernel takes them: the array itself for compiled code, a list of ints for plain Python."""
    return values if compile_it else values.tolist()


def fields(kind: type[Fields], values: Sequence[int], compile_it: bool) -> Fields:
    """Numbers by name as a kernel takes them: a named tuple, or a record for compiled code, which passes a pointer on
    to each function that it calls in place of all numbers.
    """
    if not compile_it:
        return kind(*values)
    return np.array([tuple(values)], [(name, np.int64) for name in cast("Any", kind)._fields])[0]


def zeros(count: int, compile_it: bool, dtype: DTypeLike = np.int64) -> MutableSequence[int]:
    """That many zeros, as `numbers` gives them."""
    return np.zeros(count, dtype) if compile_it else [0] * count


def trailing_zeros(bits: int) -> int:
    """The number of the lowest bit that is set. bits: not 0; int64 in compiled code."""
    return (bits & -bits).bit_length() - 1


def word_shape(count: int, compile_it: bool) -> tuple[int, int, int]:
    """(words, shift, mask) of sets of the numbers 0 .. count - 1: 64 bits a word, or one word for plain Python."""
    shift = 6 if compile_it else max(1, count - 1).bit_length()
    mask = (1 << shift) - 1
    return (count + mask) >> shift, shift, mask


def words_of(bits: NDArray[np.bool_], compile_it: bool) -> MutableSequence[int]:
    """The rows of bool[rows, count] as sets, one behind the other, each of as many words as `word_shape` says."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    if not compile_it:
        return [int.from_bytes(row.tobytes(), "little") for row in packed]
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view("<i8").astype(np.int64).ravel()


def as_words(bits: list[int], compile_it: bool) -> MutableSequence[int]:
    """Words as a kernel takes them. bits: each below 2^64 for compiled code."""
    return np.array(bits, np.uint64).view(np.int64) if compile_it else bits
