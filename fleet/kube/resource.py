"""API resources: the paths of a kind on the API server, and the keys of its objects in stores and queues."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fleet.errors import InvalidKey

if TYPE_CHECKING:
    from fleet.model import catalog as catalog
    from fleet.model.views import Metadata

STATUS: Final = "status"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind at the version in which it is read and written."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    _: KW_ONLY
    namespaced: bool

    @classmethod
    def of(cls, kind: catalog.KindDefinition) -> Resource:
        """The resource of one of Fleet's own kinds."""
        return cls(kind.group, kind.storage, kind.plural, kind.kind, namespaced=kind.is_namespaced)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str = "") -> str:
        """The path of all objects; of a namespaced kind without a namespace, those of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{within}/{self.plural}"

    def item(self, key: str, subresource: str = "") -> str:
        namespace, name = split_key(key)
        if bool(namespace) is not self.namespaced:
            wanted = "namespace/name" if self.namespaced else "a name without a namespace"
            raise InvalidKey(f"{key!r} is not a key of a {self.kind}: want {wanted}")
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


def key_of(metadata: Metadata) -> str:
    """`namespace/name`, or the name alone where there is no namespace."""
    namespace = metadata.namespace  # not by join_key: this is called for every object that is read
    return f"{namespace}/{metadata.name}" if namespace else metadata.name


def join_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    namespace, slash, name = key.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise InvalidKey(f"{key!r} is not a key: want name or namespace/name")
    return namespace, name
