"""Substitution: `${NAME}` in the strings of a document, from the variables and Secrets that the document itself names.

Secrets are read by processes that work with a hub. Elsewhere references to them stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


def qualify_key(secret: str, key: str) -> str:
    """The key of one Secret, which no reference can name: several Secrets may have keys of one name."""
    return f"{secret}:{key}"


class NamedSources(NamedTuple):
    """The sources of references in a document that has no place for their names."""

    variables: Sequence[str] = ()
    secrets: Sequence[str] = ()


NO_SOURCES: Final = NamedSources()


@dataclass(frozen=True, slots=True)
class SecretValues:
    """What the Secrets of a document hold, by key."""

    values: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    unusable: Mapping[str, str] = field(default_factory=_nothing)
    """Why a key has no value."""
    unread: tuple[str, ...] = ()
    """Why some of the Secrets could not be read."""

    def describe_missing(self, key: str, names: Collection[str]) -> str:
        """Why the key has no value; empty if it has one. `names` are those of the Secrets."""
        if key in self.values:
            return ""
        return self.unusable.get(key) or "; ".join(self.unread) or f"no key {key} in {', '.join(names)}"

    def keep(self, before: SecretValues) -> SecretValues:
        """With the former values of keys that have none any more."""
        return replace(self, values={**before.values, **self.values})


@dataclass(frozen=True, slots=True)
class Substitution:
    environ: Mapping[str, str] = field(default_factory=_nothing)
    allowed: Collection[str] = ()
    secret_names: tuple[str, ...] = ()
    """Secrets whose keys are names."""
    secrets: SecretValues | None = None
    """What they hold; None where they are not read."""
    secret_keys: set[str] = field(default_factory=set)
    """Filled with the keys that are referred to."""
    advice: str = "add {name} to substitution.fromEnv"
    """How to name the source of a variable."""
    token_secrets: tuple[str, ...] = ()
    """Secrets that `tokenFrom` alone names: no reference takes a value from them."""

    def resolve(self, text: str) -> tuple[str, list[str]]:
        """The text with values for references, and what is wrong with the others."""
        problems = [problem for name in _REFERENCE.findall(text) if (problem := self._find_problem(name))]
        problems += self.list_missing(text)
        if problems:
            return text, problems
        return _REFERENCE.sub(lambda match: self._find_value(match[1], match[0]), text), []

    def list_missing(self, text: str) -> list[str]:
        """Why references to Secrets have no value. Secrets change while the process runs."""
        if self.secrets is None:
            return []
        keys = [name for name in _REFERENCE.findall(text) if self.secret_names and name not in self.allowed]
        self.secret_keys.update(keys)
        missing = ((key, self.secrets.describe_missing(key, self.secret_names)) for key in keys)
        return [f"${{{key}}} has no value: {problem}" for key, problem in missing if problem]

    def resolve_all(self, value: Any) -> Any:
        """Likewise in nested values; references that cannot be resolved stay."""
        match value:
            case str():
                return self.resolve(value)[0]
            case Mapping():
                return {name: self.resolve_all(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.resolve_all(inner) for inner in value]
        return value

    def add_token_secret(self, name: str) -> Substitution:
        is_known = name in (*self.secret_names, *self.token_secrets)
        return self if is_known else replace(self, token_secrets=(*self.token_secrets, name))

    def find_secret(self, name: str, key: str) -> tuple[str, str]:
        """What that one Secret holds under the key, and why it holds nothing. Both are empty where none is read."""
        own = qualify_key(name, key)
        self.secret_keys.add(own)
        if self.secrets is None:
            return "", ""
        missing = self.secrets.describe_missing(own, (name,))
        return self.secrets.values.get(own, ""), missing and f"tokenFrom has no value: {missing}"

    def _find_value(self, name: str, written: str) -> str:
        if name in self.allowed:
            return self.environ[name]
        return written if self.secrets is None else self.secrets.values.get(name, written)

    def _find_problem(self, name: str) -> str:
        if name in self.allowed:
            return "" if name in self.environ else f"${{{name}}} has no value: the environment has no variable {name}"
        if not self.secret_names:
            return f"${{{name}}} has no source: {self.advice.format(name=name)}"
        return ""
