"""Lossless compaction of JSON for models: white space is dropped, and sub-trees that repeat are written once.

`fold_json` replaces each further occurrence of a sub-tree by `*N` and defines `*N` in a
preamble, which accompanies every part of the text. Equal neighbours in an array become
`×N value`. The rest is JSON with one element per line, so that a text can be divided
between elements and every line has its lines in the source. `unfold_json` restores the data.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tersely.shapes.json_values import elements, entries, skip_space
from tersely.text.tokens import O200K

LEGEND = (
    "[folded: *4 stands for the value that the line `*4 = …` at the beginning defines. ×3 before a value: it occurs "
    "three times in a row.]"
)

WORTH_FOLDING = 0.75
"""Largest size of a folded text relative to the original."""

_SHORTEST = 32
"""Characters of a sub-tree that is worth a definition."""

_MOST_DEFINED = 4_000
"""Characters of all definitions, which every part repeats."""

_DEEPEST = 200
_REFERENCE = re.compile(r"\*\d+")
_TIMES = re.compile(r"×(\d+) ")


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


@dataclass(frozen=True)
class FoldedJSON:
    preamble: str
    """Definitions of the repeated sub-trees, one per line."""

    pieces: list[tuple[str, int, int]]
    """Lines of the folded text, each with the offsets of its source."""


def fold_json(text: str) -> FoldedJSON | None:
    """Fold a JSON text; None if it is not one, or if folding saves less than a quarter."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        pieces = list(_pieces(text))
        folded = _Folding([value for _, value, _, _ in pieces]).fold(pieces)
    except (ValueError, RecursionError):
        return None
    size = len(folded.preamble) + sum(len(line) + 1 for line, _, _ in folded.pieces)
    if size > len(text) * WORTH_FOLDING:
        return None
    whole = "\n".join((folded.preamble, *(line for line, _, _ in folded.pieces)))
    return folded if O200K.count(whole) <= O200K.count(text) * WORTH_FOLDING else None


def unfold_json(folded: FoldedJSON) -> Any:
    """The data of a folded text; numbers are strings of class `_Number`."""
    defined: dict[str, str] = {}
    for line in folded.preamble.split("\n"):
        name, _, value = line.partition(" = ")
        defined[name] = value

    def expanded(text: str) -> str:
        out: list[str] = []
        at = 0
        while at < len(text):
            if text[at] == '"':
                _, end = _STRING.raw_decode(text, at)
                out.append(text[at:end])
                at = end
            elif match := _REFERENCE.match(text, at):
                out.append(expanded(defined[match.group()]))
                at = match.end()
            elif match := _TIMES.match(text, at):
                end = _end_of_value(text, match.end())
                out.append(",".join([expanded(text[match.end() : end])] * int(match[1])))
                at = end
            else:
                out.append(text[at])
                at += 1
        return "".join(out)

    return _DECODER.decode(expanded("\n".join(line for line, _, _ in folded.pieces)))


_STRING = json.JSONDecoder()


def _end_of_value(text: str, at: int) -> int:
    """The offset after a folded value."""
    if text[at] == '"':
        return _STRING.raw_decode(text, at)[1]
    depth = 0
    while at < len(text):
        if text[at] == '"':
            at = _STRING.raw_decode(text, at)[1]
            continue
        if text[at] in ",]}" and depth == 0:
            return at
        depth += text[at] in "[{"
        depth -= text[at] in "]}"
        at += 1
        if depth == 0 and text[at - 1] in "]}":
            return at
    return at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice, and only one of its values would be kept")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
)


def _pieces(text: str) -> Iterator[tuple[str, Any, str, tuple[int, int]]]:
    """Yield (before, value, after, offsets) of the parts of a document: entries of an object, elements of arrays.

    Raises:
        ValueError: The text is not one JSON array or object.
    """
    at = skip_space(text, 0)
    opening = text[at]
    found: list[tuple[str | None, Any, int, int]] = (
        list(entries(text, at, _DECODER))
        if opening == "{"
        else [(None, *each) for each in elements(text, at, _DECODER)]
    )
    end = found[-1][3] if found else skip_space(text, at + 1)
    closing = skip_space(text, end)
    if text[closing : closing + 1] != ("}" if opening == "{" else "]") or text[closing + 1 :].strip():
        raise ValueError("the text goes on after the JSON")
    if not found:
        raise ValueError("nothing to fold")
    for number, (key, value, start, stop) in enumerate(found):
        before = (opening if number == 0 else "") + (f"{_quoted(key)}:" if key is not None else "")
        after = "," if number < len(found) - 1 else "}" if opening == "{" else "]"
        if key is None or not isinstance(value, list) or len(value) < 3:
            yield before, value, after, (start, stop)
            continue
        inside = list(elements(text, skip_space(text, start), _DECODER))
        for index, (element, first, last) in enumerate(inside):
            is_last = index == len(inside) - 1
            yield f"{before}[" if index == 0 else "", element, f"]{after}" if is_last else ",", (first, last)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Folding:
    """Finds equal sub-trees. Each distinct value has a number; equal values have the same one."""

    def __init__(self, values: list[Any]) -> None:
        self._numbers: dict[Any, int] = {}
        self._sizes: list[int] = []
        self._ids: dict[int, int] = {}
        """Number of each container, by `id`; the containers are kept alive by the caller."""

        self._uses: Counter[int] = Counter()
        self._samples: dict[int, Any] = {}
        for value in values:
            self._number(value, 0)
        for value in values:
            self._count(value)
        self.names = self._chosen()

    def fold(self, pieces: list[tuple[str, Any, str, tuple[int, int]]]) -> FoldedJSON:
        lines: list[tuple[str, int, int]] = []
        at = 0
        while at < len(pieces):
            before, value, after, (start, end) = pieces[at]
            times = 1
            # Equal neighbours inside of one array.
            while after == "," and at + times < len(pieces) and self._repeats(pieces[at + times], value):
                _, _, after, (_, end) = pieces[at + times]
                times += 1
            mark = f"×{times} " if times > 1 else ""
            lines.append((f"{before}{mark}{self._text(value)}{after}", start, end))
            at += times
        defined = [f"{name} = {self._text(self._samples[number], define=True)}" for number, name in self.names.items()]
        return FoldedJSON("\n".join(defined), lines)

    def _repeats(self, piece: tuple[str, Any, str, tuple[int, int]], value: Any) -> bool:
        before, other, _, _ = piece
        return not before and self._same(other, value)

    def _same(self, one: Any, other: Any) -> bool:
        if isinstance(one, dict | list) and isinstance(other, dict | list):
            return self._ids[id(one)] == self._ids[id(other)]
        return type(one) is type(other) and one == other

    def _number(self, value: Any, depth: int) -> tuple[Any, int]:
        """The key of a value, equal for equal values, and its size in characters."""
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if isinstance(value, dict):
            inner = [(key, self._number(one, depth + 1)) for key, one in value.items()]
            size = 2 + sum(len(key) + 4 + length for key, (_, length) in inner)
            shape: Any = ("{", tuple((key, number) for key, (number, _) in inner))
        elif isinstance(value, list):
            items = [self._number(one, depth + 1) for one in value]
            size = 2 + sum(length + 1 for _, length in items)
            shape = ("[", tuple(number for number, _ in items))
        else:
            return (type(value).__name__, value), len(str(value)) + 2
        number = self._numbers.setdefault(shape, len(self._numbers))
        if number == len(self._sizes):
            self._sizes.append(size)
            self._samples[number] = value
        self._ids[id(value)] = number
        return number, size

    def _count(self, value: Any) -> None:
        """Count how often each container would be written, if those seen before were not written again."""
        if not isinstance(value, dict | list):
            return
        number = self._ids[id(value)]
        self._uses[number] += 1
        if self._uses[number] > 1 and self._sizes[number] >= _SHORTEST:
            return
        for inner in value.values() if isinstance(value, dict) else value:
            self._count(inner)

    def _chosen(self) -> dict[int, str]:
        """The containers to define, those that save most first, in as many characters as every part can repeat."""
        gains = [
            ((uses - 1) * self._sizes[number], number)
            for number, uses in self._uses.items()
            if uses > 1 and self._sizes[number] >= _SHORTEST
        ]
        names: dict[int, str] = {}
        left = _MOST_DEFINED
        for _, number in sorted(gains, key=lambda gain: (-gain[0], gain[1])):
            if self._sizes[number] <= left:
                left -= self._sizes[number]
                names[number] = f"*{len(names) + 1}"
        return names

    def _text(self, value: Any, *, define: bool = False) -> str:
        if isinstance(value, dict | list) and not define and (name := self.names.get(self._ids[id(value)])):
            return name
        if isinstance(value, dict):
            return "{" + ",".join(f"{_quoted(key)}:{self._text(one)}" for key, one in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(self._runs(value)) + "]"
        return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)

    def _runs(self, values: list[Any]) -> Iterator[str]:
        at = 0
        while at < len(values):
            end = at + 1
            while end < len(values) and self._same(values[end], values[at]):
                end += 1
            text = self._text(values[at])
            if end - at > 2:
                yield f"×{end - at} {text}"
            else:
                yield from [text] * (end - at)
            at = end
