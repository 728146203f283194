"""The effective configuration as a list of keys and values, without secrets: what a page may show.

Values of variables may be secrets, so everything that a server or provider gets as argument, header or environment
variable is hidden; the rest is masked.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from tersely.masking.mask import Masker
from tersely.web.schemas import ConfigurationValueOut

HIDDEN = "***"
_HIDDEN_NAMES = frozenset(("args", "env", "headers", "password", "secret", "sha256"))


def configuration_values(
    value: Any, key: tuple[str, ...] = (), *, is_default: bool = False
) -> Iterator[ConfigurationValueOut]:
    """Every single value with its key, in the order of the settings."""
    if isinstance(value, SecretStr) or (key and key[-1] in _HIDDEN_NAMES):
        if value:
            yield ConfigurationValueOut(key=".".join(key), value=HIDDEN, is_default=is_default)
    elif isinstance(value, BaseModel):
        for name, inner in value:
            field = type(value).model_fields.get(name)
            default = field.get_default(call_default_factory=False) if field else inner
            yield from configuration_values(inner, (*key, name), is_default=default == inner)
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from configuration_values(inner, (*key, str(name)), is_default=is_default)
    elif isinstance(value, tuple | list) and any(isinstance(inner, BaseModel) for inner in value):
        for number, inner in enumerate(value):
            yield from configuration_values(inner, (*key, str(number)), is_default=is_default)
    else:
        yield ConfigurationValueOut(key=".".join(key), value=_shown(value), is_default=is_default)


def _shown(value: Any) -> Any:
    if isinstance(value, tuple | list | set | frozenset):
        return json.loads(Masker().mask(json.dumps(list(value), ensure_ascii=False, default=str)))
    if isinstance(value, str | Path):
        return str(Masker().mask(str(value)))
    return value if value is None or isinstance(value, bool | int | float) else str(Masker().mask(str(value)))
