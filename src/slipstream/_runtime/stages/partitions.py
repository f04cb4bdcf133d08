"""Keys that Spark distributes evenly: one for each partition of a stateful operator.

Spark sends a row to a partition by the hash of its key. Consecutive numbers would collide and leave partitions idle, so
the parts of a job are identified by labels that do not.
"""

from __future__ import annotations

from itertools import count

_MASK = 0xFFFFFFFF
#: Spark hashes rows with this seed
_SEED = 42


def labels(parts: int) -> tuple[int, ...]:
    """The smallest key that Spark hashes into each of ``parts`` partitions, in the order of the partitions.

    >>> labels(1), labels(4)
    ((0,), (12, 6, 2, 0))
    """
    found: dict[int, int] = {}
    for label in count():
        found.setdefault(spark_hash(label) % parts, label)
        if len(found) == parts:
            return tuple(found[part] for part in range(parts))
    raise AssertionError


def spark_hash(value: int) -> int:
    """The hash of an integer column in Spark: Murmur3 (x86, 32 bits, by Austin Appleby) of its four bytes.

    >>> spark_hash(1)
    -559580957
    """
    mixed = (_rotate(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593) & _MASK
    found = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
