"""Moving points: types and operators for Spark SQL, after Güting's algebra of moving objects.

``types`` defines the columns of moving values, ``columns`` reads them into NumPy without copying, ``validity`` checks
them, ``motion``, ``places`` and ``nearness`` are the compiled kernels, ``functions`` makes them Spark SQL functions,
``value`` is one moving point in Python, ``plane`` projects degrees to metres and back.
"""

from slipstream._moving.functions import register
from slipstream._moving.plane import Plane
from slipstream._moving.value import MovingPoint

__all__ = ["MovingPoint", "Plane", "register"]
