"""Merges settings from three sources: the file, the environment and the command line; later ones win.

The source of every value is known, for error messages and for `tersely config show`.
This module does not know the settings themselves: `settings.model` hands in its models.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError

from tersely.errors import ConfigError
from tersely.mcp.servers import Server
from tersely.settings.environment import SettingsEnvironment
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

Place = Literal["file", "environment", ".env", "command line", "derived"]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class SettingSource:
    """Where a value comes from."""

    place: Place
    name: str
    """File and line, the variable, or what it is derived from."""

    def __str__(self) -> str:
        return self.name if self.place in ("file", "derived") else f"{self.place} {self.name}"


@dataclass
class SettingsTree:
    """Settings as written, not validated yet, each with its source."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: ConfigProblems | None = None
    """Of the file, if there is one."""

    sections: Collection[str] | None = None
    """The sections to load; None: all."""

    _other_problems: list[str] = field(default_factory=list)
    _written: dict[Key, tuple[SettingSource, Any]] = field(default_factory=dict)
    """Values that are not from the file."""

    @property
    def document(self) -> Document | None:
        return self.problems.document if self.problems else None

    def includes(self, section: str) -> bool:
        return self.sections is None or section in self.sections

    def mapping(self, *key: str) -> dict[str, Any]:
        """The mapping at a key, created if missing. A value of another shape is left to the validation."""
        at = self.values
        for part in key:
            value = at.setdefault(part, {})
            if not isinstance(value, dict):
                return {}
            at = value
        return at

    def put(self, key: Key, value: Any, source: SettingSource) -> None:
        """Set or replace a value."""
        *path, last = map(str, key)
        self.mapping(*path)[last] = value
        self._written[key] = (source, value)

    def derive(self, key: Key, value: Any, why: str) -> None:
        """Set a value that is not written."""
        self.put(key, value, SettingSource("derived", why))

    def source(self, key: Key) -> SettingSource | None:
        """Where the value comes from; None for built-in defaults."""
        for size in range(len(key), 0, -1):
            if key[:size] in self._written:
                return self._written[key[:size]][0]
        if self.document and self.raw(key) is not None:
            return SettingSource("file", f"{self.document.path}:{self.document.line(key)}")
        return None

    def raw(self, key: Key) -> Any:
        """The value in the file, with variables unresolved; None if it is not in the file."""
        at: Any = self.document.data if self.document else None
        for part in key:
            exists = (
                part in at
                if isinstance(at, dict)
                else isinstance(part, int) and isinstance(at, list) and part < len(at)
            )
            if not exists:
                return None
            at = at[part]
        return at

    def report(self, key: Key, message: str, *, secret: bool = False, about_name: bool = False) -> None:
        """Record a problem, with the place where the value was written.

        Args:
            about_name: The key itself is wrong, whatever its value is.
        """
        source, value = next(
            (self._written[key[:size]] for size in range(len(key), 0, -1) if key[:size] in self._written), (None, None)
        )
        if source and source.place != "derived":
            self._add(f"{source.name}{'' if secret else f'={value!r}'}: {message}")
        elif self.problems and (
            self.raw(key[:1]) is not None or not any(written[: len(key)] == key for written in self._written)
        ):
            if about_name or not self.problems.needs_variable(key):
                self.problems.add(key, message)
        else:
            # Values from the environment that contradict each other: the message names the variables.
            self._add(message)

    def _add(self, message: str) -> None:
        if message not in self._other_problems:
            self._other_problems.append(message)

    def checked(self, model: type[_Model]) -> _Model | None:
        """The values as a model; None if there are problems."""
        try:
            return model.model_validate(self.values)
        except ValidationError as wrong:
            reported: set[Key] = set()
            errors = [
                (error, *_place(model, error["loc"]))
                for error in wrong.errors(include_url=False, include_context=False)
            ]
            for error, key, holder, described in errors:
                if key in reported:
                    continue
                if error["type"] == "too_short" and any(
                    other != key and other[: len(key)] == key for _, other, _, _ in errors
                ):
                    continue  # It has entries; their problems are reported.
                reported.add(key)
                if error["type"] == "extra_forbidden":
                    message = f"is not a setting{nearest(str(key[-1]), field_names(holder))}"
                elif error["type"] == "missing":
                    message = (
                        f"is missing: {_uncapital(described.partition(chr(10))[0])}" if described else "is missing"
                    )
                else:
                    message = plain_message(error["msg"], error["input"], error["type"])
                is_unknown = error["type"] == "extra_forbidden"
                self.report(key, message, secret=_is_secret(model, key), about_name=is_unknown)
            return None

    def raise_if_any(self) -> None:
        """
        Raises:
            ConfigError: Lists every problem, those of the file in the order of its lines.
        """
        found = (
            [message for _, message in sorted(self.problems.found, key=lambda problem: problem[0])]
            if self.problems
            else []
        )
        if found or self._other_problems:
            raise ConfigError("\n".join([*found, *self._other_problems]))


def gather(
    model: type[BaseModel],
    *,
    environment: Mapping[str, str],
    file: Path | None,
    overrides: Mapping[str, object],
    sections: Collection[str] | None = None,
) -> tuple[SettingsTree, tuple[Server, ...]]:
    """The settings of `model` as written, and the servers that the file declares, which are validated separately.

    Raises:
        ConfigError: The file cannot be read or parsed.
    """
    tree = SettingsTree(sections=sections)
    servers: tuple[Server, ...] = ()
    if file:
        document = read_document(file)
        problems = tree.problems = ConfigProblems(document)
        if document.data is not None and not isinstance(document.data, dict):
            problems.add((), f"must be a mapping of {', '.join(field_names(model))}")
            tree.raise_if_any()
        for name, value in (document.data or {}).items():
            if not tree.includes(name) or value is None or name.startswith("x-") or name == "$schema":
                # `x-…` keys hold YAML anchors that other sections repeat.
                continue
            if name == "mcp_servers":
                servers = servers_in(name, environment, problems)
            else:
                filled = _written_only(fill_variables(value, (name,), environment, problems), value)
                is_map = name in model.model_fields and get_origin(model.model_fields[name].annotation) is dict
                if is_map and isinstance(filled, dict):
                    # A name without a value is an entry with all defaults.
                    filled = {entry: filled.get(entry, {}) for entry in value}
                tree.values[name] = filled
    for key, variable in _variables(model, ()):
        place: Place = "command line" if overrides.get(variable) is not None else "environment"
        given = overrides[variable] if place == "command line" else environment.get(variable)
        # An empty variable counts as unset: Compose files pass every variable, set or not.
        if (
            place == "environment"
            and isinstance(environment, SettingsEnvironment)
            and variable in environment.from_file
        ):
            place = ".env"
        if given not in (None, "") and tree.includes(str(key[0])):
            tree.put(key, given, SettingSource(place, variable))
    return tree, servers


def _written_only(filled: Any, raw: Any) -> Any:
    """Drop keys without a value, or whose variable is empty."""
    if isinstance(filled, dict):
        return {
            name: _written_only(value, raw[name])
            for name, value in filled.items()
            if value is not None and (value != "" or raw[name] == "")
        }
    return (
        [_written_only(value, raw[number]) for number, value in enumerate(filled)]
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
    """The location of a pydantic error: key in the file, model with the last part of the key, field description."""
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
            # The name of a type in a union.
            break
    return key, holder, described


def _spellings(name: str, described: Any) -> set[str]:
    alias = described.validation_alias
    return {name, described.alias or name, *(map(str, alias.choices) if isinstance(alias, AliasChoices) else ())}


def _core(annotation: Any) -> Any:
    """The type inside `Annotated` and `| None`."""
    while get_origin(annotation) is not None and get_origin(annotation) not in (dict, tuple, list):
        types = [each for each in get_args(annotation) if each is not type(None)]
        if not types:
            break
        annotation = types[0]
    return annotation


def _is_secret(model: type[BaseModel], key: Key) -> bool:
    at: Any = model
    for part in key:
        kind = _core(at)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and part in kind.model_fields:
            at = kind.model_fields[str(part)].annotation
    # The token may have been pasted in place of its hash.
    return "SecretStr" in str(at) or "tokens" in key


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]
