"""`yaml.safe_dump` and `yaml.safe_dump_all` by the C library, which takes a fraction, where there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def safe_dump(document: object, **options: Any) -> str:
    return safe_dump_all([document], **options)


def safe_dump_all(documents: Iterable[object], **options: Any) -> str:
    text: str = yaml.dump_all(documents, Dumper=_DUMPER, **options)
    return text
