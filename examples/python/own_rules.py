"""A toll of your own: a function from the average speed and the number of cars of many segments to their tolls.

It is called once per minute with arrays that have an element per segment. Segments near an accident are free, whatever
it returns.
"""

import numpy as np
import numpy.typing as npt

import slipstream as ss

Longs = npt.NDArray[np.int64]


def per_car(lav: Longs, cars: Longs) -> Longs:
    """Five cents for every car beyond the tenth, where traffic is slower than 50 mph."""
    return np.where((lav < 50) & (cars > 10), 5 * (cars - 10), 0)


if __name__ == "__main__":
    tolled = ss.read("runs/rush").toll(rules=per_car)
    ss.Job("out").write(tolled).run()
    print(ss.open("out")["notifications"].to_pandas())
