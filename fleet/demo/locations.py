"""Locations of the simulated members: plausible regions, zones, sizes and prices.

Member number n is the same on every machine and in every run, so that demos are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final, NamedTuple

from fleet.model.views import Taint

LONGEST_FLEET: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The constant properties of a cluster, and its initial size and prices."""

    name: str
    region: str
    zone: str
    env: str
    tier: str
    version: str
    nodes: int
    cores: int
    """Of one node."""
    gibibytes: int
    """Of one node."""
    core_price: float
    """Per hour, as is the next."""
    gibibyte_price: float
    taints: tuple[Taint, ...] = ()

    def labels(self) -> dict[str, str]:
        return {"region": self.region, "zone": self.zone, "env": self.env, "tier": self.tier}


class _Site(NamedTuple):
    city: str
    zone: str
    price: float
    """Factor on the list prices."""

    @property
    def region(self) -> str:
        return self.zone.rpartition("-")[0]


class _Make(NamedTuple):
    cores: int
    gibibytes: int
    price: float


_SITES: Final = (
    # A dozen clusters stay in these three regions, so that spreading over regions shows.
    _Site("iad", "us-east-1", 1.00),
    _Site("dub", "eu-west-1", 1.06),
    _Site("sin", "ap-south-1", 0.94),
    _Site("atl", "us-east-2", 0.97),
    _Site("ams", "eu-west-2", 1.11),
    _Site("bom", "ap-south-2", 0.83),
    _Site("pdx", "us-west-1", 0.96),
    _Site("sfo", "us-west-2", 1.22),
    _Site("fra", "eu-central-1", 1.15),
    _Site("zrh", "eu-central-2", 1.31),
    _Site("arn", "eu-north-1", 0.88),
    _Site("hel", "eu-north-2", 0.86),
    _Site("nrt", "ap-east-1", 1.19),
    _Site("icn", "ap-east-2", 1.09),
    _Site("gru", "sa-east-1", 1.34),
    _Site("scl", "sa-east-2", 1.27),
    _Site("cpt", "af-south-1", 1.25),
    _Site("jnb", "af-south-2", 1.21),
)
_FIRST_SITES: Final = 6
_FIRST_LOCATIONS: Final = 12
_MAKES: Final = (_Make(4, 16, 1.0), _Make(8, 32, 0.98), _Make(8, 64, 1.05), _Make(16, 64, 0.95))
_GPU_MAKE: Final = _Make(32, 256, 2.6)
_VERSIONS: Final = ("1.34.2", "1.34.1", "1.33.6", "1.33.4", "1.32.9")
_CORE_PRICE: Final = 0.034
_GIBIBYTE_PRICE: Final = 0.0046

_ENVIRONMENTS: Final = ("prod",) * 6 + ("staging",) * 3 + ("dev",)
_TIERS: Final = {"prod": ("gold", "silver"), "staging": ("silver", "bronze"), "dev": ("bronze",)}
_NODES: Final = {"prod": (6, 24), "staging": (3, 8), "dev": (1, 4)}
_GPU_EVERY: Final = 8
_MAINTAINED_EVERY: Final = 12
_GPU: Final = Taint(key="nvidia.com/gpu", value="a100", effect="NoSchedule")
_MAINTENANCE: Final = Taint(key="maintenance", value="kernel-upgrade", effect="NoSchedule")


def location_at(number: int) -> Location:
    """The location of member `number`, counted from 0."""
    site, ordinal = _site_of(number)
    chance = Random(f"{site.city}-{ordinal}")
    env = "prod" if ordinal == 1 else chance.choice(_ENVIRONMENTS)
    has_gpus = number % _GPU_EVERY == _GPU_EVERY - 1
    make = _GPU_MAKE if has_gpus else chance.choice(_MAKES)
    price = site.price * make.price * chance.uniform(0.95, 1.05)
    return Location(
        name=f"{site.city}-gpu-{ordinal}" if has_gpus else f"{site.city}-{ordinal}",
        region=site.region,
        zone=site.zone,
        env=env,
        tier=chance.choice(_TIERS[env]),
        version=chance.choice(_VERSIONS),
        nodes=chance.randint(*_NODES[env]),
        cores=make.cores,
        gibibytes=make.gibibytes,
        core_price=_CORE_PRICE * price,
        gibibyte_price=_GIBIBYTE_PRICE * price,
        taints=_taints_of(number, has_gpus=has_gpus),
    )


def find_location(name: str) -> Location:
    """The location of that name; a cluster with any other name gets one of ordinary size and price."""
    city, _, ordinal = name.rpartition("-")
    known = _number_of(city.removesuffix("-gpu"), int(ordinal)) if ordinal.isdecimal() else None
    if known is not None and (location := location_at(known)).name == name:
        return location
    return replace(location_at(Random(name).randrange(_FIRST_SITES)), name=name, taints=())


def _number_of(city: str, ordinal: int) -> int | None:
    column = next((column for column, site in enumerate(_SITES) if site.city == city), None)
    if column is None:
        return None
    first_rows = _FIRST_LOCATIONS // _FIRST_SITES if column < _FIRST_SITES else 0
    if ordinal <= first_rows:
        return (ordinal - 1) * _FIRST_SITES + column
    return _FIRST_LOCATIONS + (ordinal - 1 - first_rows) * len(_SITES) + column


def _site_of(number: int) -> tuple[_Site, int]:
    """The site, and which of its clusters it is, counted from 1."""
    if number < _FIRST_LOCATIONS:
        row, column = divmod(number, _FIRST_SITES)
        return _SITES[column], row + 1
    row, column = divmod(number - _FIRST_LOCATIONS, len(_SITES))
    first_rows = _FIRST_LOCATIONS // _FIRST_SITES if column < _FIRST_SITES else 0
    return _SITES[column], first_rows + row + 1


def _taints_of(number: int, *, has_gpus: bool) -> tuple[Taint, ...]:
    under_repair = number % _MAINTAINED_EVERY == _MAINTAINED_EVERY - 2
    return (_GPU,) * has_gpus + (_MAINTENANCE,) * under_repair
