"""Mask secrets in the descriptions of tools, prompts and resources.

A description may contain a password its author wrote there. Only descriptions and
titles are masked; names, types, defaults and values stay unchanged, because programs
depend on them.
"""

from functools import lru_cache
from typing import Any

from tersely.errors import MaskingFailed
from tersely.masking.clean import clean
from tersely.masking.imitations import demote
from tersely.masking.mask import Masker
from tersely.masking.options import MaskingOptions

_PROSE_FIELDS = ("description", "title")
"""Fields of a definition that contain prose."""


def without_secrets(definition: Any, masking: MaskingOptions) -> Any:
    """A copy of a definition with its descriptions and titles masked, at every depth."""
    return _with_masked_prose(definition, masking.model_dump_json()) if masking.enabled else definition


def _with_masked_prose(value: Any, masking: str) -> Any:
    if isinstance(value, dict):
        return {
            name: _masked(inner, masking)
            if name in _PROSE_FIELDS and isinstance(inner, str)
            else _with_masked_prose(inner, masking)
            for name, inner in value.items()
        }
    return [_with_masked_prose(inner, masking) for inner in value] if isinstance(value, list) else value


@lru_cache(maxsize=20_000)
def _masked(text: str, masking: str) -> str:
    """Cached: clients list tools often, and descriptions rarely change."""
    try:
        return _masker(masking).mask(demote(clean(text).text))
    except MaskingFailed:
        return "[not shown: the check for secrets failed]"


@lru_cache(maxsize=256)
def _masker(masking: str) -> Masker:
    return MaskingOptions.model_validate_json(masking).masker()
