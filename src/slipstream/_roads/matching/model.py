"""The parameters of matching, in metres and seconds, and what kernels compute with."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream._errors import BadArgument
from slipstream._roads.matching.lattice import ModelSettings

#: the mean difference of a route from the straight line, in standard deviations of positions
DETOUR = 1.0
#: how much longer a route is for turning round, in standard deviations of positions
U_TURN = 20.0
_MICROS = 1_000_000
#: no lag: a decision waits for all positions that could change it
_FOREVER = 1 << 60


@dataclass(frozen=True)
class Model:
    """How positions are matched; metres, seconds and metres per second."""

    #: the standard deviation of positions
    noise: float = 10.0
    #: how far a road may be away; by default five times the noise, and at least 50
    reach: float | None = None
    #: the longest silence that a route bridges
    gap: float = 120.0
    #: the highest speed of a vehicle
    fastest: float = 70.0
    #: how long a decision may wait; None: until all positions are known
    lag: float | None = None

    def __post_init__(self) -> None:
        bounds = {"noise": (0.1, 200.0), "reach": (1.0, 1000.0), "gap": (1.0, 86_400.0), "fastest": (1.0, 1000.0)}
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise BadArgument(
                    f"{name} {value}: out of range.", hint=f"Give {least:g} to {most:g}.", code="out-of-range"
                )
        if self.lag is not None and not 0 <= self.lag <= 86_400:
            raise BadArgument(f"lag {self.lag}: out of range.", hint="Give 0 to 86,400 seconds.", code="out-of-range")

    @property
    def metres(self) -> float:
        """How far a road may be away."""
        return float(max(50.0, 5 * self.noise) if self.reach is None else self.reach)

    @property
    def settings(self) -> ModelSettings:
        """The numbers that kernels use; floats, as kernels are compiled for each type that they are given."""
        lag = _FOREVER if self.lag is None else round(self.lag * _MICROS)
        noise = float(self.noise)
        return ModelSettings(noise, DETOUR * noise, round(self.gap * _MICROS), float(self.fastest), lag)
