"""What servers say of their tools, prompts and resources, for people and models to read: masked like everything they
say.

A server may be run by somebody who wrote a password into a description. Names, types, defaults and values stay as they
are:
programs go by them.
"""

from functools import lru_cache
from typing import Any

from tersely.errors import MaskingFailed
from tersely.masking.mask import Masker
from tersely.masking.options import MaskingOptions

_WORDS = ("description", "title")
"""Fields of a definition that are words."""


def without_secrets(definition: Any, masking: MaskingOptions) -> Any:
    """What a server lists, with its words for people and models masked. Names, types and values stay: programs go by
    them.
    """
    return _worded(definition, masking.model_dump_json()) if masking.enabled else definition


def _worded(value: Any, masking: str) -> Any:
    if isinstance(value, dict):
        return {
            name: _words(inner, masking) if name in _WORDS and isinstance(inner, str) else _worded(inner, masking)
            for name, inner in value.items()
        }
    return [_worded(inner, masking) for inner in value] if isinstance(value, list) else value


@lru_cache(maxsize=20_000)
def _words(text: str, masking: str) -> str:
    """Looked at once: lists are asked for again and again, and hardly ever change."""
    try:
        return _masker(masking).mask(text)
    except MaskingFailed:
        return "[not shown: it could not be checked for secrets]"


@lru_cache(maxsize=256)
def _masker(masking: str) -> Masker:
    return MaskingOptions.model_validate_json(masking).masker()
