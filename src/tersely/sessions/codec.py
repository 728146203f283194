"""What the workflow engine stores of a step: our own records as JSON that a person can read.

Only what we declare ourselves comes back as an object: dataclasses and errors of
this package. Nothing stored can make the reader import or run anything else. An
error's text may quote a server or a provider, so it is masked on its way in.
"""

import dataclasses
import importlib
import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from tersely.errors import TerselyError
from tersely.tools.mask import Masker

_OURS = "tersely."
_MASKER = Masker()


class StepFailed(TerselyError):
    """A step ended with an error that is not one of ours; what it was stands in the log."""


def to_json(value: Any) -> str:
    return json.dumps(_packed(value), ensure_ascii=True, allow_nan=True)


def from_json(text: str) -> Any:
    return _unpacked(json.loads(text))


def _packed(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [_packed(item) for item in value]
    if isinstance(value, tuple):
        return {"$tuple": [_packed(item) for item in value]}
    if isinstance(value, dict):
        return {"$dict": [[_packed(key), _packed(item)] for key, item in value.items()]}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, BaseException):
        return _packed_error(value)
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(_OURS):
        fields = {field.name: _packed(getattr(value, field.name)) for field in dataclasses.fields(kind) if field.init}
        return {"$is": f"{kind.__module__}:{kind.__qualname__}", "of": fields}
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} is nothing that a step may return; return a record of ours."
    )


def _packed_error(error: BaseException) -> Any:
    kind = type(error)
    if not isinstance(error, TerselyError):
        return {"$raised": "tersely.sessions.codec:StepFailed", "args": [f"{kind.__name__} (see the log)"], "state": {}}
    args = [
        _MASKER.mask(arg) if isinstance(arg, str) else arg
        for arg in error.args
        if isinstance(arg, str | int | float | bool)
    ]
    state = {name: item for name, item in vars(error).items() if isinstance(item, int | float | bool) or item is None}
    return {"$raised": f"{kind.__module__}:{kind.__qualname__}", "args": args, "state": state}


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tuple" in value:
        return tuple(_unpacked(item) for item in value["$tuple"])
    if "$dict" in value:
        return {_unpacked(key): _unpacked(item) for key, item in value["$dict"]}
    if "$decimal" in value:
        return Decimal(value["$decimal"])
    if "$time" in value:
        return datetime.fromisoformat(value["$time"])
    if "$raised" in value:
        raised = _ours(value["$raised"])
        if not issubclass(raised, TerselyError):
            raise TypeError(f"{value['$raised']} is no error of ours.")
        # Not by its constructor, whose arguments differ from error to error.
        error = raised.__new__(raised)
        error.args = tuple(value["args"])
        vars(error).update(value["state"])
        return error
    kind = _ours(value["$is"])
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{value['$is']} is no record of ours.")
    make: Any = kind
    return make(**{name: _unpacked(item) for name, item in value["of"].items()})


def _ours(name: str) -> Any:
    module, _, qualname = name.partition(":")
    if not module.startswith(_OURS) or "." in qualname:
        raise TypeError(f"{name} is not one of ours.")
    return getattr(importlib.import_module(module), qualname)
