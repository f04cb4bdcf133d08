"""Operators beyond BerlinMOD's, by subject; importing them registers them (``operator_registry``)."""

from slipstream._moving.operators import edit_operators, movement_operators, over_time_operators, shape_operators

__all__ = ["edit_operators", "movement_operators", "over_time_operators", "shape_operators"]
