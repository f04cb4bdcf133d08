"""Moving points: types and operators for Spark SQL, after Güting's algebra of moving objects.

``types`` says how a moving point lies in a column, ``columns`` hands such columns to NumPy without copying,
``validity`` says what is wrong with them, ``motion``, ``places`` and ``nearness`` are the compiled kernels,
``functions`` makes them Spark SQL functions, ``value`` is one moving point in Python, ``plane`` projects degrees to
metres and back.
"""

from slipstream._moving.functions import register
from slipstream._moving.plane import Plane
from slipstream._moving.value import MovingPoint

__all__ = ["MovingPoint", "Plane", "register"]
