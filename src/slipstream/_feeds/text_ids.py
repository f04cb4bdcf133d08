"""Text ids: hashing and encoding them before they are numbered.

The state of a job identifies a vehicle by a number. If a feed has text ids, the tasks that read it send the texts, and
``_runtime.state.id_numbers`` assigns each a number.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled, mix

#: what an id must not contain: it would break the lines of text outputs
_CONTROL = r"[\x00-\x1f\x7f]"

Hashes = npt.NDArray[np.uint64]


@compiled
def hash_text(text: Bytes) -> np.uint64:
    """The hash of some bytes (FNV-1a by Fowler, Noll and Vo, scrambled)."""
    value = np.uint64(0xCBF29CE484222325)
    for byte in text:
        value = (value ^ np.uint64(byte)) * np.uint64(0x100000001B3)
    return mix(value)


@compiled
def _hash_all(heap: Bytes, ends: Longs, hashes: Hashes) -> None:
    for i in range(hashes.size):
        hashes[i] = hash_text(heap[ends[i] : ends[i + 1]])


def hashes(texts: pa.StringArray) -> Hashes:
    """The hash of each text: the same on all machines, and in all versions that can resume a job."""
    heap, ends = join_bytes(texts)
    found = np.empty(len(texts), np.uint64)
    _hash_all(heap, ends, found)
    return found


def assign_parts(texts: pa.StringArray, parts: int) -> Ints:
    """Which of several parts each text belongs to."""
    # the lower bits select a slot of the part's hash table
    return ((hashes(texts) >> np.uint64(32)) % np.uint64(parts)).astype(np.int32)


def join_bytes(texts: pa.StringArray) -> tuple[Bytes, Longs]:
    """The concatenated bytes of texts; the i-th is ``heap[ends[i] : ends[i + 1]]``."""
    if not len(texts):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, ends, heap = texts.buffers()
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(heap, np.uint8) if heap else np.empty(0, np.uint8), offsets


def split_texts(heap: Bytes, sizes: npt.NDArray[np.integer]) -> pa.StringArray:
    """The texts of these sizes in ``heap``."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(heap)))


def encode(texts: pa.StringArray) -> bytes:
    """Encode texts for transport and storage.

    >>> decode(encode(pa.array(["B-X 1", "", "ü"]))).to_pylist()
    ['B-X 1', '', 'ü']
    """
    heap, ends = join_bytes(texts)
    sizes = np.concatenate([[len(texts)], np.diff(ends)]).astype("<i4")
    return sizes.tobytes() + heap[ends[0] : ends[-1]].tobytes()


def decode(blob: bytes) -> pa.StringArray:
    """Decode what :func:`encode` returned."""
    (count,) = np.frombuffer(blob, "<i4", 1)
    return split_texts(np.frombuffer(blob, np.uint8, offset=4 + 4 * int(count)), np.frombuffer(blob, "<i4", count, 4))


def decode_checked(blob: bytes) -> pa.StringArray:
    """Texts from bytes that may be damaged; raises ``ValueError`` if they are."""
    count = int(np.frombuffer(blob, "<i4", 1)[0])
    if not 0 <= count <= len(blob) // 4 - 1:
        raise ValueError(f"{count} texts in {len(blob)} bytes")
    sizes = np.frombuffer(blob, "<i4", count, 4)
    if (sizes < 0).any() or 4 + 4 * count + int(sizes.sum(dtype=np.int64)) != len(blob):
        raise ValueError(f"texts of other lengths than the {len(blob)} bytes there are")
    texts = decode(blob)
    texts.validate(full=True)
    return texts


def ranks(texts: pa.StringArray | npt.NDArray[np.object_]) -> Longs:
    """The place of each text in alphabetical order, by its bytes; equal texts have one place.

    >>> ranks(np.array(["b", "a", "b"], object)).tolist()
    [1, 0, 1]
    """
    found = pc.rank(pa.array(texts, pa.string()), sort_keys="ascending", tiebreaker="dense")
    return np.asarray(found.to_numpy().astype(np.int64) - 1)


def concat_texts(parts: Iterable[pa.StringArray]) -> pa.StringArray:
    """Concatenate texts."""
    return pa.concat_arrays([pa.array([], pa.string()), *parts])


def are_valid(texts: pa.StringArray) -> Bools:
    """Which texts can be ids: not empty, and without control characters.

    >>> are_valid(pa.array(["B-X 1", "", "a\\nb"])).tolist()
    [True, False, False]
    """
    bad = pc.or_(pc.equal(texts, ""), pc.match_substring_regex(texts, _CONTROL))
    return np.asarray(pc.invert(pc.fill_null(bad, True)))
