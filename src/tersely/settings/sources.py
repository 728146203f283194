"""One tree of settings out of three places: the file, over it the environment, over that the command line.

Every value remembers where it came from: a mistake is named where it was made,
and `tersely config show` can say it. What the settings are, and which of them
must fit together, is not known here: `config` hands in its models.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError

from tersely.errors import ConfigError
from tersely.mcp.servers import Server
from tersely.settings.files import (
    ConfigProblems,
    Document,
    Key,
    field_names,
    fill_variables,
    nearest,
    plain_message,
    read_document,
    servers_in,
)

Place = Literal["file", "environment", "command line", "derived"]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class SettingSource:
    """Where a value was written."""

    place: Place
    name: str
    """The file and line, the variable, or what it was derived from."""

    def __str__(self) -> str:
        return self.name if self.place in ("file", "derived") else f"{self.place} {self.name}"


@dataclass
class SettingsTree:
    """Settings as they were written, not checked yet, and where each was written."""

    values: dict[str, Any] = field(default_factory=dict)
    mistakes: ConfigProblems | None = None
    """Of the file, where there is one."""

    sections: Collection[str] | None = None
    """The parts of the tree that were asked for; None: all."""

    _elsewhere: list[str] = field(default_factory=list)
    _written: dict[Key, tuple[SettingSource, Any]] = field(default_factory=dict)
    """What did not come from the file."""

    @property
    def document(self) -> Document | None:
        return self.mistakes.document if self.mistakes else None

    def asks_for(self, section: str) -> bool:
        return self.sections is None or section in self.sections

    def mapping(self, *key: str) -> dict[str, Any]:
        """The mapping at a key, made if nobody wrote one. One of another shape is left alone; the check tells it."""
        at = self.values
        for part in key:
            inner = at.setdefault(part, {})
            if not isinstance(inner, dict):
                return {}
            at = inner
        return at

    def put(self, key: Key, value: Any, source: SettingSource) -> None:
        """Set a value, whatever was there."""
        *path, last = map(str, key)
        self.mapping(*path)[last] = value
        self._written[key] = (source, value)

    def derive(self, key: Key, value: Any, why: str) -> None:
        """Fill in what nobody wrote."""
        self.put(key, value, SettingSource("derived", why))

    def source(self, key: Key) -> SettingSource | None:
        """Where the value was written; None for what is built in."""
        for size in range(len(key), 0, -1):
            if key[:size] in self._written:
                return self._written[key[:size]][0]
        if self.document and self.raw(key) is not None:
            return SettingSource("file", f"{self.document.path}:{self.document.line(key)}")
        return None

    def raw(self, key: Key) -> Any:
        """What the file says, its variables not filled in; None where it says nothing."""
        at: Any = self.document.data if self.document else None
        for part in key:
            is_there = (
                part in at
                if isinstance(at, dict)
                else isinstance(part, int) and isinstance(at, list) and part < len(at)
            )
            if not is_there:
                return None
            at = at[part]
        return at

    def complain(self, key: Key, message: str, *, secret: bool = False) -> None:
        """Name a mistake where it was made."""
        source, value = next(
            (self._written[key[:size]] for size in range(len(key), 0, -1) if key[:size] in self._written), (None, None)
        )
        if source and source.place != "derived":
            self._add(f"{source.name}{'' if secret else f'={value!r}'}: {message}")
        elif self.mistakes and (
            self.raw(key[:1]) is not None or not any(written[: len(key)] == key for written in self._written)
        ):
            if not self.mistakes.needs_variable(key):
                self.mistakes.add(key, message)
        else:
            # Values that do not fit together, from the environment: the message names the variables.
            self._add(message)

    def _add(self, message: str) -> None:
        if message not in self._elsewhere:
            self._elsewhere.append(message)

    def checked(self, model: type[_Model]) -> _Model | None:
        """The values as a model; None where there are mistakes."""
        try:
            return model.model_validate(self.values)
        except ValidationError as wrong:
            told: set[Key] = set()
            errors = [
                (error, *_place(model, error["loc"]))
                for error in wrong.errors(include_url=False, include_context=False)
            ]
            for error, key, holder, described in errors:
                if key in told:
                    continue
                if error["type"] == "too_short" and any(
                    other != key and other[: len(key)] == key for _, other, _, _ in errors
                ):
                    continue  # Its entries are there; what is wrong with them is told.
                told.add(key)
                if error["type"] == "extra_forbidden":
                    message = f"is not a setting{nearest(str(key[-1]), field_names(holder))}"
                elif error["type"] == "missing":
                    message = (
                        f"is missing: {_uncapital(described.partition(chr(10))[0])}" if described else "is missing"
                    )
                else:
                    message = plain_message(error["msg"], error["input"], error["type"])
                self.complain(key, message, secret=_is_secret(model, key))
            return None

    def raise_if_any(self) -> None:
        """
        Raises:
            ConfigError: Names every mistake, those of the file in the order of its lines.
        """
        found = (
            [message for _, message in sorted(self.mistakes.found, key=lambda mistake: mistake[0])]
            if self.mistakes
            else []
        )
        if found or self._elsewhere:
            raise ConfigError("\n".join([*found, *self._elsewhere]))


def gather(
    model: type[BaseModel],
    *,
    environment: Mapping[str, str],
    file: Path | None,
    overrides: Mapping[str, object],
    sections: Collection[str] | None = None,
) -> tuple[SettingsTree, tuple[Server, ...]]:
    """What was written about the settings of `model`, and the servers the file declares, which have a reader of their
    own.

    Raises:
        ConfigError: The file cannot be read at all.
    """
    gathered = SettingsTree(sections=sections)
    servers: tuple[Server, ...] = ()
    if file:
        document = read_document(file)
        mistakes = gathered.mistakes = ConfigProblems(document)
        if document.data is not None and not isinstance(document.data, dict):
            mistakes.add((), f"must be a mapping of {', '.join(field_names(model))}")
            gathered.raise_if_any()
        for name, value in (document.data or {}).items():
            if not gathered.asks_for(name) or value is None or name.startswith("x-") or name == "$schema":
                # `x-…` is where anchors are kept that other parts repeat.
                continue
            if name == "mcp_servers":
                servers = servers_in(name, environment, mistakes)
            else:
                filled = _written_only(fill_variables(value, (name,), environment, mistakes), value)
                is_map = name in model.model_fields and get_origin(model.model_fields[name].annotation) is dict
                if is_map and isinstance(filled, dict):
                    # A name alone is an entry of which everything is left open.
                    filled = {entry: filled.get(entry, {}) for entry in value}
                gathered.values[name] = filled
    for key, variable in _variables(model, ()):
        place: Place = "command line" if overrides.get(variable) is not None else "environment"
        given = overrides[variable] if place == "command line" else environment.get(variable)
        # An empty variable counts as unset: compose files pass on every variable, set or not.
        if given not in (None, "") and gathered.asks_for(str(key[0])):
            gathered.put(key, given, SettingSource(place, variable))
    return gathered, servers


def _written_only(filled: Any, raw: Any) -> Any:
    """A key with nothing behind it, or with a variable that is empty, counts as not written."""
    if isinstance(filled, dict):
        return {
            name: _written_only(inner, raw[name])
            for name, inner in filled.items()
            if inner is not None and (inner != "" or raw[name] == "")
        }
    return (
        [_written_only(inner, raw[number]) for number, inner in enumerate(filled)]
        if isinstance(filled, list)
        else filled
    )


def _variables(model: type[BaseModel], key: Key) -> Iterator[tuple[Key, str]]:
    for name, described in model.model_fields.items():
        if isinstance(described.annotation, type) and issubclass(described.annotation, BaseModel):
            yield from _variables(described.annotation, (*key, name))
        elif described.alias:
            yield (*key, name), described.alias


def _place(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[Key, type[BaseModel], str]:
    """Where pydantic found something wrong, as a key of the file; the model in which its last part stands; what is said
    about it.
    """
    key: Key = ()
    at: Any = model
    holder, described = model, ""
    for part in loc:
        kind = _core(at)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            holder = kind
            name, found = next(
                ((name, info) for name, info in kind.model_fields.items() if part in _spellings(name, info)),
                (part, None),
            )
            key, at, described = (
                (*key, name),
                found.annotation if found else None,
                (found.description or "") if found else "",
            )
        elif get_origin(kind) in (dict, tuple, list):
            key, at, described = (*key, part), get_args(kind)[-1 if get_origin(kind) is dict else 0], ""
        else:
            # The name of one of several kinds a value may have.
            break
    return key, holder, described


def _spellings(name: str, described: Any) -> set[str]:
    alias = described.validation_alias
    return {name, described.alias or name, *(map(str, alias.choices) if isinstance(alias, AliasChoices) else ())}


def _core(annotation: Any) -> Any:
    """The kind of value behind `Annotated` and `| None`."""
    while get_origin(annotation) is not None and get_origin(annotation) not in (dict, tuple, list):
        inner = [each for each in get_args(annotation) if each is not type(None)]
        if not inner:
            break
        annotation = inner[0]
    return annotation


def _is_secret(model: type[BaseModel], key: Key) -> bool:
    at: Any = model
    for part in key:
        kind = _core(at)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and part in kind.model_fields:
            at = kind.model_fields[str(part)].annotation
    # Somebody may have pasted the token where its hash belongs.
    return "SecretStr" in str(at) or "tokens" in key


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]
