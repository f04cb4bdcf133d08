"""Operators beyond BerlinMOD's, by subject; importing them registers them (``operator_registry``)."""

from slipstream._moving.operators import edits, movement, over_time, shape_operators

__all__ = ["edits", "movement", "over_time", "shape_operators"]
