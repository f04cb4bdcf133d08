"""Compiled kernels: Numba, cached on disk, with their Python types preserved.

A kernel is a small pure function on arrays. ``compiled`` keeps the annotated signature visible to the type
checker and to readers, and keeps the plain Python function as ``.py_func`` so that tests can run it uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import event, types
from numba.extending import intrinsic

from slipstream._tools.progress import COMPILING, say_once

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class _Compilation(event.Listener):
    """Reports that kernels are being compiled; Numba is silent for the seconds to minutes this takes."""

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        say_once(COMPILING)

    def on_end(self, event: event.Event) -> None:
        """Nothing to report: the work that waited for the kernels continues."""


# Numba emits this event only for kernels that it does not find in its cache
event.register("numba:compile", _Compilation())  # type: ignore[no-untyped-call]


def compiled(function: F) -> F:
    """Compile ``function`` with Numba on first use; the machine code is cached beside the source."""
    kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    _ignore_unreadable(kernel._cache._cache_file)
    return cast(F, kernel)


def _ignore_unreadable(cache: Any) -> None:
    """Treat a cache as empty if it names classes that a newer version renamed.

    Numba unpickles the index of a cache before it checks whether the source has changed.
    """
    load = cache._load_index

    def load_index() -> dict[Any, Any]:
        try:
            return cast("dict[Any, Any]", load())
        except (AttributeError, ImportError):
            return {}

    cache._load_index = load_index


def _lend(_: Any, value: Any) -> Any:
    """Return arrays, or tuples of them, that Numba does not count references to: kernels pass them on for free.

    A compiled function counts its references to every array that it is given, in every call, with two atomic additions
    each; a kernel that hands a dozen tables to small functions spends most of its time on that. The caller keeps the
    arrays alive: it must use what it borrowed from after the last use of what this returns.
    """

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return _disown(context, builder, value, arguments[0])

    return value(value), generate


#: arrays, or tuples of them, as ``_lend`` returns them; only for compiled functions
borrow = cast("Callable[[T], T]", intrinsic(_lend))


def _disown(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value whose arrays have no counter."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = array.meminfo.type(None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds = cast("Iterable[Any]", kind)
        parts = [_disown(context, builder, part, builder.extract_value(value, n)) for n, part in enumerate(kinds)]
        return context.make_tuple(builder, kind, parts)
    return value


@compiled
def mix(key: np.uint64) -> np.uint64:
    """Scramble 64 bits (the SplitMix64 finaliser of Steele, Lea and Flood, 2014).

    Random numbers that are a hash of what they are for (seed, trip, purpose) do not depend on the order in
    which they are drawn, and so not on the number of cores.
    """
    z = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def scramble(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """``mix`` for a whole array."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)


def uniform(keys: npt.NDArray[np.uint64]) -> Floats:
    """Numbers in [0, 1) that depend only on ``keys``."""
    return (scramble(keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53
