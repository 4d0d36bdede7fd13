"""Syntax of label keys, label values and DNS names, as Kubernetes validates them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST_LABEL_VALUE: Final = 63
LONGEST_SUBDOMAIN: Final = 253
_KEYS_KEPT: Final = 1024

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def is_subdomain(text: str) -> bool:
    """A lower-case RFC 1123 subdomain, the form of most object names."""
    return len(text) <= LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """An RFC 1123 label: a part of a subdomain."""
    return _LABEL.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """The empty text is a label value."""
    return not text or _is_name(text)


@lru_cache(_KEYS_KEPT)  # policies name few keys, and large ones name them often
def is_qualified_name(text: str) -> bool:
    """A label key, annotation key, taint key or property name: a name, or a DNS subdomain, a slash and a name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return _is_name(name)


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_LABEL_VALUE and _NAME.fullmatch(text) is not None
