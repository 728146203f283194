"""The JSON in which the workflow engine stores step results: our own records, readable by a person.

A record or an error is stored under a stable name (`sessions/records.py`), not
under its Python path, so that moving or renaming a class never breaks a session
that is under way. It carries the version of its fields: unknown fields are ignored,
missing ones get their default, and older versions are converted. What cannot be read
all the same raises `UnreadableRecord`, and the session resumes before that step.
Only registered types are decoded: nothing stored can make the reader import or run
anything else. An error's text may quote a server or a provider, so it is masked before
it is stored.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, get_args

from tersely.errors import TerselyError
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, from_store
from tersely.pipeline.admit import admit_words

_MASKER = Masker()


class StepFailed(TerselyError):
    """A step ended with an error that is not one of ours; the log has the details."""


class UnreadableRecord(TypeError):
    """A stored value that this release cannot read: another release wrote it."""


Fields = dict[str, Any]


@dataclass(frozen=True)
class StoredType:
    """A record or error class, and the name under which it is stored."""

    name: str
    """Never changes."""

    kind: type
    formerly: tuple[str, ...] = ()
    """Names under which older releases stored it; they are read for ever."""

    version: int = 1
    """Raised when a field changes its type or meaning, together with an entry in `upgrades`. New and removed fields
    need no new version: a new field has a default, here or in the class.
    """

    upgrades: Mapping[int, Callable[[Fields], Fields]] = field(default_factory=dict)
    """For each older version, the conversion of its fields to the next version."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values for fields without a default in the class that older releases did not store."""


class RecordCodec:
    """Encodes and decodes step results.

    A field that the class does not know is ignored, and a missing one gets its default, so that a record written by a
    newer or older release can still be read.
    """

    def __init__(self, types: Iterable[StoredType]) -> None:
        self._types: dict[type, StoredType] = {}
        self._named: dict[str, StoredType] = {}
        for one in types:
            self._types[one.kind] = one
            for name in (one.name, *one.formerly):
                if name in self._named:
                    raise ValueError(f"Two stored types are called {name!r}: {self._named[name].kind} and {one.kind}.")
                self._named[name] = one

    def to_json(self, value: Any) -> str:
        return json.dumps(self._encode(value), ensure_ascii=True, allow_nan=True)

    def from_json(self, text: str) -> Any:
        """
        Raises:
            UnreadableRecord: Another release wrote something that this one does not know.
        """
        try:
            return self._decode(json.loads(text))
        except UnreadableRecord:
            raise
        except (ValueError, TypeError, LookupError, ArithmeticError) as problem:
            raise UnreadableRecord(f"A stored value cannot be read: {type(problem).__name__}.") from problem

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
        stored = self._type(type(value))
        return {"$is": stored.name, "v": stored.version, "of": self._encode_fields(value)}

    def _encode_fields(self, record: Any) -> dict[str, Any]:
        return {
            field.name: self._encode(getattr(record, field.name)) for field in dataclasses.fields(record) if field.init
        }

    def _encode_error(self, error: BaseException) -> Any:
        if not isinstance(error, TerselyError):
            error = StepFailed(f"{type(error).__name__} (see the log)")
        args = [
            admit_words(arg, _MASKER) if isinstance(arg, str) else arg
            for arg in error.args
            if isinstance(arg, str | int | float | bool)
        ]
        state = {
            name: item for name, item in vars(error).items() if isinstance(item, int | float | bool) or item is None
        }
        return {"$raised": self._type(type(error)).name, "args": args, "state": state}

    def _type(self, kind: type) -> StoredType:
        try:
            return self._types[kind]
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
        return self._decode_record(value)

    def _decode_record(self, value: Fields) -> Any:
        stored = self._named_type(value["$is"])
        kind: Any = stored.kind
        fields: Fields = {name: self._decode(item) for name, item in value["of"].items()}
        version = int(value.get("v", 1))
        if version > stored.version:
            raise UnreadableRecord(
                f"{stored.name} is stored in version {version}, this release knows {stored.version}."
            )
        for older in range(version, stored.version):
            fields = stored.upgrades[older](fields)
        known = {one.name: one for one in dataclasses.fields(kind) if one.init}
        given = {name: item for name, item in {**stored.defaults, **fields}.items() if name in known}
        return kind(**{name: _masked(known[name], item) for name, item in given.items()})

    def _decode_error(self, value: dict[str, Any]) -> TerselyError:
        kind = self._named_type(value["$raised"]).kind
        if not issubclass(kind, TerselyError):
            raise UnreadableRecord(f"{value['$raised']} is stored as an error and is not one.")
        # Not by its constructor, whose parameters differ from error to error.
        error: TerselyError = kind.__new__(kind)
        error.args = tuple(value["args"])
        vars(error).update(value["state"])
        return error

    def _named_type(self, name: str) -> StoredType:
        try:
            return self._named[name]
        except KeyError:
            raise UnreadableRecord(f"No stored type is called {name!r}.") from None


def _masked(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """A text in a field that only takes masked text was masked before it was stored."""
    declares = field.type is Masked or Masked in get_args(field.type)
    return from_store(value) if declares and isinstance(value, str) else value
