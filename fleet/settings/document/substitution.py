"""Substitution: `${NAME}` in the strings of a document, from the variables and Secrets that the document itself names.

Secrets are read by processes that work with a hub. Elsewhere references to them stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Substitution:
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allowed: Collection[str] = ()
    secret_names: tuple[str, ...] = ()
    """Secrets whose keys are names."""
    secrets: Mapping[str, str] | None = None
    """By key, what they hold; None where they are not read."""

    def resolve(self, text: str) -> tuple[str, list[str]]:
        """The text with values for references, and what is wrong with the others."""
        problems = [problem for name in _REFERENCE.findall(text) if (problem := self._find_problem(name))]
        if problems:
            return text, problems
        return _REFERENCE.sub(lambda match: self._find_value(match[1], match[0]), text), []

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

    def _find_value(self, name: str, written: str) -> str:
        return self.environ[name] if name in self.allowed else (self.secrets or {}).get(name, written)

    def _find_problem(self, name: str) -> str:
        if name in self.allowed:
            return "" if name in self.environ else f"${{{name}}} has no value: the environment has no variable {name}"
        if not self.secret_names:
            return f"${{{name}}} has no source: add {name} to substitution.fromEnv"
        if self.secrets is None or name in self.secrets:
            return ""
        listed = ", ".join(self.secret_names)
        return f"${{{name}}} has no value: no key {name} in {listed} when the process started"
