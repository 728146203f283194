"""The definition of `read_result`, the tool that reads kept results, the same for agents and for MCP clients.

One tool whose arguments decide what it does, because every definition costs a model
tokens in every turn: the schema names only what a model needs to begin. Arguments
of a next page (`offset`, `start_byte`) are accepted as well; the page before spells
them out. Light to import; `read_back` runs the tool.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from tersely.errors import InputError


class ReadArguments(BaseModel):
    """The arguments of `read_result`: lines unless `pattern`, `sql` or `looking_for` asks for something else."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    handle: str = Field(max_length=200)
    """Handle of the kept result: r_ and 16 letters and digits."""

    start_line: int = Field(default=1, ge=1)
    """First line, counted from 1; with a pattern, show matches from this line on."""

    end_line: int | None = Field(default=None, ge=1)
    """Last line, inclusive; without it, as many as fit on a page."""

    start_byte: int | None = Field(default=None, ge=0)
    """Read from this byte instead, counted from 0; for texts with very long lines."""

    end_byte: int | None = Field(default=None, ge=0)
    """Read up to this byte, exclusive; only with start_byte."""

    pattern: str = ""
    """Regular expression in re2 syntax, matched within lines: `error|timeout`, `^WARN`, `pod/web-\\d+`."""

    context: int = Field(default=0, ge=0, le=20)
    """Lines shown before and after each match."""

    ignore_case: bool = False
    sql: str = ""
    """One SELECT in DuckDB's SQL over the table `result`; nested values are JSON (metadata->>'$.name').
    `DESCRIBE result` lists the columns; the lines of any text are the table `lines` (number, line).
    """

    offset: int = Field(default=0, ge=0)
    """Skip this many rows, for the next page of a query."""

    looking_for: str = Field(default="", max_length=20_000, validation_alias=AliasChoices("looking_for", "focus"))
    """What you want to know; the result is shortened to it."""

    max_tokens: int = Field(default=1_000, ge=50, le=20_000)
    """Maximum size of the shortened result."""

    @classmethod
    def check(cls, arguments: Mapping[str, Any], *, name: str) -> Self:
        """Validate what a model sent.

        Raises:
            InputError: An argument is not valid, or two exclude each other; the message tells a model how to correct
                it.
        """
        # Models send null for an argument they leave out.
        given = {key: value for key, value in arguments.items() if value is not None}
        try:
            checked = cls.model_validate(given)
        except ValidationError as wrong:
            raise InputError(f"{name}: {_explained(wrong)}") from None
        asked = [key for key in ("pattern", "sql", "looking_for") if getattr(checked, key)]
        if len(asked) > 1:
            raise InputError(f"{name}: use one of {' and '.join(asked)}, not both.")
        return checked


@dataclass(frozen=True)
class ReadBackTool:
    name: str
    description: str
    schema: dict[str, Any]
    """JSON schema of the arguments, shared: do not modify."""

    earlier_names: tuple[str, ...] = ()
    """Names of tools that this one replaced; a conversation may still contain them."""

    def answers_to(self, name: str) -> bool:
        return name == self.name or name in self.earlier_names


READ_RESULT = ReadBackTool(
    "read_result",
    "Read a shortened result: lines, regex matches, SQL over table `result`, or shortened to what you are looking_for.",
    {
        "type": "object",
        "properties": {
            "handle": {"type": "string"},
            "start_line": {"type": "integer"},
            "end_line": {"type": "integer"},
            "pattern": {"type": "string"},
            "context": {"type": "integer"},
            "sql": {"type": "string"},
            "looking_for": {"type": "string"},
        },
        "required": ["handle"],
    },
    earlier_names=("search_result", "query_result", "summarize_result"),
)
"""The tool to offer to models."""


def read_call(handle: str, *, name: str = READ_RESULT.name, **arguments: object) -> str:
    """A call of the tool as a note or a page spells it out; `...` stands for a value that the model chooses."""
    given = {"handle": handle, **arguments}
    spelt = (f"{key}={'…' if value is ... else repr(value)}" for key, value in given.items())
    return f"{name}({', '.join(spelt)})"


def _explained(wrong: ValidationError) -> str:
    messages = []
    known = list(ReadArguments.model_fields)
    for error in wrong.errors(include_url=False, include_context=False):
        name = ".".join(str(place) for place in error["loc"])
        if error["type"] == "extra_forbidden":
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            messages.append(
                f"there is no argument {name!r}{hint} There are: {', '.join(READ_RESULT.schema['properties'])}"
            )
        else:
            messages.append(f"{name}: {error['msg'][0].lower()}{error['msg'][1:]}")
    return "; ".join(messages)
