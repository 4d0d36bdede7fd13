"""The resource selectors of a placement, as read from its spec."""

from __future__ import annotations

from typing import Final

from fleet.model.views import LabelSelector, View
from fleet.placement.selection.discovery import KindName

NAMESPACE: Final = "Namespace"
WITH_RESOURCES: Final = "NamespaceWithResources"
WITH_SELECTORS: Final = "NamespaceWithResourceSelectors"


class SelectorTerm(View, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""
    label_selector: LabelSelector | None = None
    selection_scope: str = WITH_RESOURCES

    @property
    def kind_name(self) -> KindName:
        return KindName(self.group, self.version, self.kind)

    @property
    def selects_namespaces(self) -> bool:
        return (self.group, self.kind) == ("", NAMESPACE)

    @property
    def takes_whole_namespaces(self) -> bool:
        return self.selects_namespaces and self.selection_scope == WITH_RESOURCES

    @property
    def chooses_inside(self) -> bool:
        """Selects a namespace from which other selectors select objects."""
        return self.selects_namespaces and self.selection_scope == WITH_SELECTORS

    def __str__(self) -> str:
        if self.name:
            return f"{self.kind_name} named {self.name}"
        return f"{self.kind_name} by label" if self.label_selector is not None else f"every {self.kind_name}"


def field(position: int) -> str:
    return f"spec.resourceSelectors[{position}]"
