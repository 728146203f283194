"""TOML with the place of every key and value in the text, so that a file can be edited without rewriting it.

The standard library's parser decides what the file means; this scanner only finds the places, and every
place is compared with that parser's value. A table whose parts are scattered over the file has no place.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from tersely.errors import ConfigError
from tersely.settings.files import Document, Key

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL
)
_OTHER = re.compile(r"[^,\]}#\n]+")


def parse_toml(path: Path, text: str) -> Document:
    """
    Raises:
        ConfigError: The file cannot be parsed.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        found = re.search(r"\(at line (\d+)", str(problem))
        place, what = f":{found[1]}" if found else "", str(problem).partition(" (at ")[0]
        raise ConfigError(f"{path}{place}: is not valid TOML: {what[:1].lower()}{what[1:]}.") from None
    scanner = _Scanner(text)
    scanner.read()
    for key, (start, end) in scanner.spans.items():
        if tomllib.loads(f"value = {text[start:end]}")["value"] != _at(data, key):
            raise ConfigError(f"{path}:{text.count(chr(10), 0, start) + 1}: cannot be edited safely.")
    lines = {key: text.count("\n", 0, start) + 1 for key, (start, _) in scanner.names.items()}
    return Document(
        path, data, lines, {**scanner.spans, **scanner.tables()}, scanner.names, "toml", frozenset(scanner.headers)
    )


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = data[part]
    return data


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.spans: dict[Key, tuple[int, int]] = {}
        self.names: dict[Key, tuple[int, int]] = {}
        self.headers: dict[Key, int] = {}
        """Where the header of each table begins."""

        self._order: list[tuple[Key, int, int]] = []
        """Headers and top-level keys in the order of the file."""

    def read(self) -> None:
        table: Key | None = ()
        while self._skip(_BLANK) < len(self.text):
            start = self.at
            if self.text.startswith("[[", self.at):
                self.at += 2
                key = self._key(())
                table = None  # a list of tables; its entries are not edited
                self.at += 2
                self._order.append((key, start, self.at))
            elif self.text[self.at] == "[":
                self.at += 1
                table = self._key(())
                self.names.setdefault(table, self._last)
                self.headers[table] = start
                self.at += 1
                self._order.append((table, start, self.at))
            else:
                key = self._member(table)
                self._order.append((key, start, self.at))

    def tables(self) -> dict[Key, tuple[int, int]]:
        """From the header of each table to the end of its last value, if nothing else is between them."""
        found: dict[Key, tuple[int, int]] = {}
        for table in self.headers:
            inside = [number for number, (key, _, _) in enumerate(self._order) if key[: len(table)] == table]
            if inside == list(range(inside[0], inside[-1] + 1)) and self._order[inside[0]][0] == table:
                found[table] = (self._order[inside[0]][1], self._order[inside[-1]][2])
        return found

    def _skip(self, blank: re.Pattern[str]) -> int:
        self.at = blank.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.at

    def _key(self, inside: Key) -> Key:
        while True:
            self._skip(_SPACE)
            start = self.at
            found = _BARE_KEY.match(self.text, self.at) or _STRING.match(self.text, self.at)
            assert found, "tomllib accepted the file"
            self.at = found.end()
            self._last = (start, self.at)
            part = found[0]
            inside = (*inside, tomllib.loads(f"value = {part}")["value"] if part[0] in "\"'" else part)
            self._skip(_SPACE)
            if self.text[self.at : self.at + 1] != ".":
                return inside
            self.at += 1

    def _member(self, table: Key | None) -> Key:
        key = self._key(table or ())
        if table is not None:
            self.names[key] = self._last
        self._skip(_SPACE)
        self.at += 1  # the sign
        self._skip(_SPACE)
        self._value(key if table is not None else None)
        return key

    def _value(self, key: Key | None) -> None:
        start = self.at
        opening = self.text[self.at]
        if opening == "[":
            self._items(key)
        elif opening == "{":
            self.at += 1
            while self._skip(_BLANK) and self.text[self.at] != "}":
                self._member(key)
                self._skip(_BLANK)
                self.at += self.text[self.at] == ","
            self.at += 1
        elif found := _STRING.match(self.text, self.at):
            self.at = found.end()
        else:
            word = _OTHER.match(self.text, self.at)
            assert word, "tomllib accepted the file"
            self.at += len(word[0].rstrip())
        if key is not None:
            self.spans[key] = (start, self.at)

    def _items(self, key: Key | None) -> None:
        self.at += 1
        number = 0
        while self._skip(_BLANK) and self.text[self.at] != "]":
            self._value((*key, number) if key is not None else None)
            number += 1
            self._skip(_BLANK)
            self.at += self.text[self.at] == ","
        self.at += 1
