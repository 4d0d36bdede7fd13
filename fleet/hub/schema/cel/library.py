"""The library that evaluates CEL. It has builds for a new version of Python later than the other dependencies."""

from __future__ import annotations

import sys
from typing import Any, Final

try:
    from cel_expr_python import cel as cel  # type: ignore[import-untyped]
    from cel_expr_python.ext import (  # type: ignore[import-untyped]
        ext_bindings,
        ext_encoders,
        ext_math,
        ext_optional,
        ext_strings,
    )
except ImportError:
    cel = None

IS_INSTALLED: Final = cel is not None
NOT_CHECKED: Final = (
    "not checked by this hub: x-kubernetes-validations and patterns beyond plain ones "
    f"(there is no cel-expr-python for Python {sys.version_info.major}.{sys.version_info.minor})"
)


def create_extensions() -> list[Any]:
    return [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
        ext_encoders.ExtEncoders(),
    ]
