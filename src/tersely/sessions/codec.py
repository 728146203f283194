"""The JSON in which the workflow engine stores step results: our own records, readable by a person.

A record or an error is stored under a stable name (`sessions/records.py`), not
under its Python path, so that moving or renaming a class never breaks a session
that is under way. Only registered types are decoded: nothing stored can make the
reader import or run anything else. An error's text may quote a server or a
provider, so it is masked before it is stored.
"""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, get_args

from tersely.errors import TerselyError
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, from_store

_MASKER = Masker()


class StepFailed(TerselyError):
    """A step ended with an error that is not one of ours; the log has the details."""


@dataclass(frozen=True)
class StoredType:
    """A record or error class, and the name under which it is stored."""

    name: str
    """Never changes."""

    kind: type
    formerly: tuple[str, ...] = ()
    """Names under which older releases stored it; they are read for ever."""


class RecordCodec:
    """Encodes and decodes step results.

    A field that the class does not know is ignored, so that a record written by
    a newer or older release can still be read.
    """

    def __init__(self, types: Iterable[StoredType]) -> None:
        self._names: dict[type, str] = {}
        self._kinds: dict[str, type] = {}
        for one in types:
            self._names[one.kind] = one.name
            for name in (one.name, *one.formerly):
                if name in self._kinds:
                    raise ValueError(f"Two stored types are called {name!r}: {self._kinds[name]} and {one.kind}.")
                self._kinds[name] = one.kind

    def to_json(self, value: Any) -> str:
        return json.dumps(self._encode(value), ensure_ascii=True, allow_nan=True)

    def from_json(self, text: str) -> Any:
        return self._decode(json.loads(text))

    def _encode(self, value: Any) -> Any:
        if isinstance(value, str):
            return str(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, list):
            return [self._encode(item) for item in value]
        if isinstance(value, tuple):
            return {"$tuple": [self._encode(item) for item in value]}
        if isinstance(value, dict):
            return {"$dict": [[self._encode(key), self._encode(item)] for key, item in value.items()]}
        if isinstance(value, Decimal):
            return {"$decimal": str(value)}
        if isinstance(value, datetime):
            return {"$time": value.isoformat()}
        if isinstance(value, BaseException):
            return self._encode_error(value)
        return {"$is": self._name(type(value)), "of": self._encode_fields(value)}

    def _encode_fields(self, record: Any) -> dict[str, Any]:
        return {
            field.name: self._encode(getattr(record, field.name)) for field in dataclasses.fields(record) if field.init
        }

    def _encode_error(self, error: BaseException) -> Any:
        if not isinstance(error, TerselyError):
            error = StepFailed(f"{type(error).__name__} (see the log)")
        args = [
            _MASKER.mask(arg) if isinstance(arg, str) else arg
            for arg in error.args
            if isinstance(arg, str | int | float | bool)
        ]
        state = {
            name: item for name, item in vars(error).items() if isinstance(item, int | float | bool) or item is None
        }
        return {"$raised": self._name(type(error)), "args": args, "state": state}

    def _name(self, kind: type) -> str:
        try:
            return self._names[kind]
        except KeyError:
            raise TypeError(
                f"{kind.__module__}.{kind.__qualname__} has no stored name. "
                "A step may return plain values and the types listed in a `records` module."
            ) from None

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$tuple" in value:
            return tuple(self._decode(item) for item in value["$tuple"])
        if "$dict" in value:
            return {self._decode(key): self._decode(item) for key, item in value["$dict"]}
        if "$decimal" in value:
            return Decimal(value["$decimal"])
        if "$time" in value:
            return datetime.fromisoformat(value["$time"])
        if "$raised" in value:
            return self._decode_error(value)
        kind = self._kind(value["$is"])
        known = {field.name: field for field in dataclasses.fields(kind) if field.init}
        fields = {name: self._decode(item) for name, item in value["of"].items() if name in known}
        return kind(**{name: _masked(known[name], item) for name, item in fields.items()})

    def _decode_error(self, value: dict[str, Any]) -> TerselyError:
        kind = self._kind(value["$raised"])
        if not issubclass(kind, TerselyError):
            raise TypeError(f"{value['$raised']} is stored as an error and is not one.")
        # Not by its constructor, whose parameters differ from error to error.
        error: TerselyError = kind.__new__(kind)
        error.args = tuple(value["args"])
        vars(error).update(value["state"])
        return error

    def _kind(self, name: str) -> Any:
        try:
            return self._kinds[name]
        except KeyError:
            raise TypeError(f"No stored type is called {name!r}.") from None


def _masked(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """A text in a field that only takes masked text was masked before it was stored."""
    declares = field.type is Masked or Masked in get_args(field.type)
    return from_store(value) if declares and isinstance(value, str) else value
