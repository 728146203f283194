"""Generated data: a collection of records of one kind, and its remarkable records.

Everything a question can be about is planted here, before any text exists: the record
that differs, the one with the highest figure, the few that are not like the rest.
Shapes only render it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.generator.vocabulary import (
    FAMILY_NAMES,
    FIRST_NAMES,
    NAME_STYLES,
    PHRASES,
    PLACES,
    Number,
    State,
    hex_digits,
    identity,
    pseudo_word,
    some_domain,
)

Value = str | int | float

UNKNOWN = "-"
"""What a record does not say: tables show it so, other shapes leave the field out."""


@dataclass(frozen=True)
class Field:
    """One thing known about each record. `words` is how a person would call it."""

    words: str
    kind: str
    group: str = ""
    """The section of the record that contains it, for shapes that nest."""


@dataclass
class Collection:
    noun: str
    plural: str
    identity: Field
    fields: list[Field]
    rows: list[dict[Field, Value]]
    verbs: tuple[str, ...]
    naming: Callable[[str], str]
    """From words to the way this source spells its field names."""

    identity_at: int = 0
    """Where the name stands among the fields; real records do not always begin with it."""

    def name(self, row: dict[Field, Value]) -> str:
        return str(row[self.identity])

    def label(self, column: Field) -> str:
        """The field's name in flat shapes."""
        return self.naming(f"{column.group} {column.words}" if column.group else column.words)

    def path(self, column: Field) -> tuple[str, ...]:
        """The field's name in nested shapes."""
        return (self.naming(column.group), self.naming(column.words)) if column.group else (self.naming(column.words),)

    @property
    def columns(self) -> list[Field]:
        return [*self.fields[: self.identity_at], self.identity, *self.fields[self.identity_at :]]

    def known(self, row: dict[Field, Value]) -> list[Field]:
        """The fields, apart from the name, that this record has."""
        return [column for column in self.fields if row[column] != UNKNOWN]


def _camel(words: str) -> str:
    first, *rest = words.split()
    return first.lower() + "".join(word.capitalize() for word in rest)


NAMINGS: tuple[Callable[[str], str], ...] = (
    lambda words: words.lower().replace(" ", "_"),
    _camel,
    lambda words: words.lower().replace(" ", "-"),
    lambda words: words.title().replace(" ", ""),
    lambda words: words.lower().replace(" ", "_"),
    lambda words: words.upper().replace(" ", "_"),
)


def spelled(words: str) -> str:
    """Field names of the vocabulary are plain words, however they were written there."""
    return words.replace("_", " ").strip()


def _timestamp(rng: Random) -> str:
    return f"2026-{rng.randint(1, 9):02d}-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}Z"


def _filler(rng: Random, kind: str) -> Value:
    match kind:
        case "person":
            return f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}"
        case "place":
            return rng.choice(PLACES)
        case "phrase":
            return rng.choice(PHRASES)
        case "stamp":
            return _timestamp(rng)
        case "hash":
            return hex_digits(rng, 12)
        case "address":
            return f"10.{rng.randint(0, 255)}.{rng.randint(0, 255)}.{rng.randint(1, 254)}"
        case "version":
            return f"{rng.randint(0, 9)}.{rng.randint(0, 40)}.{rng.randint(0, 20)}"
        case _:
            return f"{pseudo_word(rng, 2)}@{pseudo_word(rng, 2)}.example"


FILLERS = (
    ("caretaker", "person"),
    ("mail", "mail"),
    ("site", "place"),
    ("remark", "phrase"),
    ("updated at", "stamp"),
    ("revision", "hash"),
    ("address", "address"),
    ("version", "version"),
    ("created on", "stamp"),
    ("origin", "place"),
    ("supervisor", "person"),
    ("note", "phrase"),
)


def number_text(rng: Random, number: Number, value: float | None = None) -> Value:
    drawn = rng.uniform(number.low, number.high) if value is None else value
    plain: Value = round(drawn) if number.decimals == 0 else round(drawn, number.decimals)
    return f"{plain}{number.unit}" if number.unit else plain


@dataclass
class Blueprint:
    """How records of one collection are made, as many as a text needs."""

    noun: str
    plural: str
    identity: Field
    states: dict[Field, tuple[State, list[str]]]
    numbers: dict[Field, Number]
    fillers: dict[Field, str]
    order: list[Field]
    style: str
    verbs: tuple[str, ...]
    naming: Callable[[str], str]
    missing: dict[Field, float]
    """How often a field is unknown."""

    identity_at: int

    def make(self, rng: Random, count: int) -> Collection:
        taken: set[str] = set()
        rows = []
        for index in range(count):
            name = identity(rng, self.style, index + 11)
            while name in taken:
                name = identity(rng, self.style, index + 11) + pseudo_word(rng, 1)
            taken.add(name)
            row: dict[Field, Value] = {self.identity: name}
            for column in self.order:
                if column in self.states:
                    row[column] = rng.choice(self.states[column][1])
                elif column in self.numbers:
                    row[column] = number_text(rng, self.numbers[column])
                else:
                    row[column] = (
                        UNKNOWN if rng.random() < self.missing.get(column, 0) else _filler(rng, self.fillers[column])
                    )
            rows.append(row)
        return Collection(
            self.noun, self.plural, self.identity, list(self.order), rows, self.verbs, self.naming, self.identity_at
        )


def blueprint(rng: Random, *, width: int = 0, style: str = "") -> Blueprint:
    """A kind of record with `width` fields (as many as it pleases when 0)."""
    domain = some_domain(rng)
    width = width or rng.randint(4, 12)
    nested = rng.random() < 0.7

    def group() -> str:
        return rng.choice(domain.groups) if nested and rng.random() < 0.5 else ""

    states: dict[Field, tuple[State, list[str]]] = {}
    numbers: dict[Field, Number] = {}
    fillers: dict[Field, str] = {}
    for state in rng.sample(domain.states, k=min(len(domain.states), max(1, width // 3))):
        # Skewed, as real states are: the first value is most of the rows, none is rare.
        weighted = [value for rank, value in enumerate(state.usual) for _ in range((8, 3, 2, 1)[rank])]
        states[Field(state.name, "state", group())] = (state, weighted)
    for number in rng.sample(domain.numbers, k=min(len(domain.numbers), max(2, width // 3))):
        numbers[Field(number.name, "number", group())] = number
    wanted = max(1, width - len(states) - len(numbers))
    for name, kind in rng.sample(FILLERS, k=min(len(FILLERS), wanted)):
        fillers[Field(name, "filler", group())] = kind
    order = [*states, *numbers, *fillers]
    rng.shuffle(order)
    return Blueprint(
        domain.noun,
        domain.plural,
        Field(spelled(domain.identity), "identity"),
        states,
        numbers,
        fillers,
        order,
        style or rng.choice(NAME_STYLES),
        domain.verbs,
        rng.choice(NAMINGS),
        {column: rng.uniform(0.1, 0.6) for column in fillers if rng.random() < 0.5} if rng.random() < 0.4 else {},
        rng.randint(1, len(order)) if rng.random() < 0.3 else 0,
    )


def as_number(value: Value) -> float:
    """The figure of a cell, without its unit."""
    if isinstance(value, str):
        digits = value.rstrip("%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        return float(digits)
    return float(value)
