"""The few words all scenarios are made of: few, so that things match, collide and tie."""

from __future__ import annotations

NOW = "2026-03-10T09:00:00Z"

LABELS: dict[str, tuple[str, ...]] = {
    "region": ("east", "west", "north", "central"),
    "zone": ("z1", "z2", "z3", "z4", "z5", "z6"),
    "env": ("prod", "canary"),
    "fleet.example.com/team": ("", "blue", "green"),
}
ABSENT_LABEL = "nobody-has-this"

NODE_COUNT = "kubernetes-fleet.io/node-count"
PROPERTIES = (NODE_COUNT, "example.com/rating", "site.example.com/temperature")
UNREADABLE_PROPERTY = "k8s.io/k8s-version"

RESOURCES = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu")
USAGES = {"total": "capacity", "allocatable": "allocatable", "available": "available"}

TAINT_KEYS = ("gpu", "maintenance", "team")
TAINT_VALUES = ("", "yes", "no")

PLACEMENTS = ("web", "billing-api", "web.shop", "kelp-tulip-maple-amber-sable-glade", "-Odd.Name-")
NAMESPACES = ("shop", "team-a")
