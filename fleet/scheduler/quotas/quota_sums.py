"""Quota sums: what is in use of every quota, and what that leaves to a placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleet.errors import InputError
from fleet.framework.policy.quotas import CLUSTERS, QuotaShare
from fleet.framework.policy.resource_requests import Needs, read_usable
from fleet.model.placement_key import PlacementKey
from fleet.model.selectors import matches
from fleet.model.views import MemberCluster, PlacementQuota, PlacementQuotaSpec
from fleet.scheduler.ledgers.room_ledger import needs_on

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Quota:
    namespace: str
    spec: PlacementQuotaSpec
    min: Amounts
    max: Amounts

    @classmethod
    def read(cls, quota: PlacementQuota) -> Quota:
        least, most = (read_usable(amounts or {}) for amounts in (quota.spec.min, quota.spec.max))
        return cls(quota.metadata.namespace, quota.spec, least, most)

    def selects(self, key: PlacementKey, labels: Mapping[str, str] | None) -> bool:
        """Whether the placement counts in it: of the same scope, with these labels."""
        if self.namespace != key.namespace:
            return False
        if self.spec.placements is None or self.namespace:
            return True
        try:
            return matches(self.spec.placements, labels)
        except InputError:
            return True  # a selector that cannot be read must not let anything past the quota


def sum_needs(needs: Needs, clusters: Iterable[MemberCluster | None]) -> Counter[str]:
    """What copies on these clusters take of quotas. None stands for a cluster that is gone."""
    if not needs.vary:
        count = len(list(clusters))
        return Counter({name: amount * count for name, amount in {CLUSTERS: 1, **needs.on(1)}.items()} if count else {})
    amounts: Counter[str] = Counter()
    for cluster in clusters:
        amounts.update({CLUSTERS: 1, **needs_on(needs, cluster)})
    return amounts


class QuotaSums:
    def __init__(self) -> None:
        self.quotas: dict[str, Quota] = {}
        """By namespace and name."""
        self._used: dict[str, Counter[str]] = {}

    def forget_use(self) -> None:
        self._used = {}

    def list_names(self, key: PlacementKey, labels: Mapping[str, str] | None) -> tuple[str, ...]:
        """The quotas that the placement counts in."""
        return tuple(sorted(name for name, quota in self.quotas.items() if quota.selects(key, labels)))

    def add(self, names: Iterable[str], amounts: Amounts) -> None:
        for name in names:
            self._used.setdefault(name, Counter()).update(amounts)

    def subtract(self, names: Iterable[str], amounts: Amounts) -> None:
        for name in names:
            self._used[name].subtract(amounts)

    def list_shares(self, name: str, kept: Mapping[str, Amounts] = MappingProxyType({})) -> Iterator[QuotaShare]:
        """One for each resource that the quota names. What is `kept`, by quota, counts as in use."""
        quota = self.quotas[name]
        for resource in dict.fromkeys((*quota.min, *quota.max)):
            least = quota.min.get(resource)
            pool = [] if least is None else list(self._list_pool(quota, resource))
            used = {
                other: self._used.get(other, Counter())[resource] + kept.get(other, {}).get(resource, 0)
                for other in {name, *pool}
            }
            beyond = {other: used[other] - self.quotas[other].min[resource] for other in pool if other != name}
            yield QuotaShare(
                name,
                resource,
                used[name],
                quota.max.get(resource),
                least,
                sum(used[other] for other in pool),
                sum(self.quotas[other].min[resource] for other in pool),
                tuple(sorted((other, amount) for other, amount in beyond.items() if amount > 0)),
            )

    def _list_pool(self, quota: Quota, resource: str) -> Iterator[str]:
        """The quotas of the same kind that guarantee the resource."""
        for name, other in self.quotas.items():
            if bool(other.namespace) is bool(quota.namespace) and resource in other.min:
                yield name
