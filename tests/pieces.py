"""How large the pieces are in which documents are decoded."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.kube.cache import stepwise


def note_pieces(patching: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each, as they are decoded from now on."""
    sizes, get_decoder = list[int](), stepwise._get_decoder

    class Decoder:
        def __init__(self, kind: Any) -> None:
            self._decode = get_decoder(kind).decode

        def decode(self, text: bytes) -> Any:
            sizes.append(memoryview(text).nbytes)
            return self._decode(text)

    patching.setattr(stepwise, "_get_decoder", Decoder)
    return sizes
