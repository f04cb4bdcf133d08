"""Moving points: types and operators for Spark SQL, after Güting's algebra of moving objects.

``types`` defines the columns of moving values, ``columns`` reads them into NumPy without copying, ``validity`` checks
them, ``timeline`` says when a result has vertices. ``kernels`` computes on whole columns, ``operators`` and
``sql_functions`` make the kernels functions of Spark SQL, ``moving_point`` is one moving point in Python, ``space`` has
planes and reference systems, ``exchange`` the formats of others.
"""

from slipstream._moving.moving_point import MovingPoint
from slipstream._moving.space.plane import Plane
from slipstream._moving.sql_functions import register

__all__ = ["MovingPoint", "Plane", "register"]
