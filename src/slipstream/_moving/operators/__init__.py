"""Operators beyond BerlinMOD's, by subject; importing them registers them (``registry``)."""

from slipstream._moving.operators import edits, movement, over_time, shapes

__all__ = ["edits", "movement", "over_time", "shapes"]
