"""Source code of any common language: an outline of definitions, and the bodies that the question is about.

Lines are the units, verbatim. A definition (function, class, type, constant) is found by the words that open it, its
extent by indentation; it owns the lines of its body, so that every shown line appears below its function and class.
The name of a definition is scored by itself: a definition whose name answers the question lends its score to its
body and to the comment above it. Where nothing answers, signatures are shown before bodies.

Works on files that are cut at both ends or do not parse, and on listings with line numbers. Does not know languages:
one table of opening words serves all of them, which was measured against tree-sitter (`docs/decisions`).
"""

import heapq
import re
from dataclasses import dataclass, replace
from itertools import pairwise

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.features import Features, nearness
from tersely.condensing.focus import Focus, Found, scan, stem
from tersely.condensing.readers.generic import MOST_UNITS
from tersely.condensing.units import Reading, Unit
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.pieces import LONGEST_LINE, pieces_of

FADE = 30
"""Number of lines after which a body's share is halved."""


SHORT = 12
"""Shorter lines (in characters) say nothing by themselves."""

LONGEST_SIGNATURE = 10
"""In lines."""

_MODIFIER = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|sealed|virtual|override"
    r"|async|pub(?:\([^)]{0,40}\))?|unsafe|extern(?:\s+\"[^\"]{0,20}\")?|inline|constexpr|const|partial|readonly|open"
    r"|data|suspend|local|explicit|friend|typedef|template\s*<[^>]{0,200}>|private\[[^\]]{0,40}\]|case|lazy|ref|new)\s+)*"
)
_OPENING = (
    r"(?:def|class|func|fun|fn|function\b\*?|sub|interface|struct|union|enum(?:\s+(?:class|struct))?|record(?:\s+struct)?"
    r"|trait|impl|protocol|extension|namespace|module|mod|object|macro_rules!|macro|type|typealias|defmodule|defp"
    r"|resource|message|service|library|contract|actor)"
)
_KEYWORD = re.compile(
    rf"{_MODIFIER}{_OPENING}(?:\s*<[^>]{{0,200}}>)?\s*[\s*&](?:\([^()]{{0,200}}\)\s*)?(?:::)?(?P<name>[A-Za-z_$~@][\w$.:@]*[?!=]?"
    r"|[^\s\w(\"'{;]{1,3}(?=\s*\())"
)
_ASSIGNED = re.compile(
    r"(?:export\s+)?(?:default\s+)?(?:(?:const|let|var|static|public|private|protected|readonly|async|local)\s+)*"
    r"(?:[\w$]+\.)*(?P<name>[\w$]+)['\"]?\s*(?::(?!:)[^=(]{0,120}=|:(?!:)|=(?!>))\s*(?:async\s*)?"
    r"(?:function\b|\([^()]{0,300}\)\s*(?::[^=]{0,80})?=>|[\w$]+\s*=>|class\b|lambda\b)"
)
_CALLABLE = re.compile(
    r"(?P<type>(?:[\w$<>\[\],.*&:?@~]|\s(?!\s*=))*[\s*&>\]](?:[\w<>,]+\.)?)?"
    r"(?P<name>operator\s?(?:\(\)|[^\s\w(]{1,3})|[~#]?[A-Za-z_$][\w$:~]*|\[[\w$.]+\])\s*(?:<[^<>()]{0,120}>)?\((?!\s*[\"'\d])"
)
_DEFINE = re.compile(r"#\s*define\s+(?P<name>\w+)")
_SQL = re.compile(
    r"(?:CREATE|create|ALTER|alter)\s+(?:OR\s+REPLACE\s+|or\s+replace\s+|UNIQUE\s+|TEMP\w*\s+|GLOBAL\s+|MATERIALIZED\s+)*"
    r"(?:TABLE|VIEW|FUNCTION|INDEX|TRIGGER|PROCEDURE|TYPE|SCHEMA|SEQUENCE|DATABASE|table|view|function|index|trigger"
    r"|procedure|type)\s+(?:IF NOT EXISTS\s+|if not exists\s+|ONLY\s+)?(?P<name>[\w.\"`\[\]]+)"
)
_SHELL = re.compile(r"(?:function\s+)?(?P<name>[\w:.-]+)\s*\(\)\s*(?:\{.*)?$")
_CONSTANT = re.compile(
    r"(?:(?:export|pub(?:\([^)]{0,40}\))?|public|private|protected|internal|static|final|const|constexpr|let|var|val"
    r"|readonly|mut|local|declare|define|extern|unsigned|signed|long|int|char|double|float|bool|boolean|string|String"
    r"|size_t)\s+)*(?:[\w.<>\[\]]+\s+\**)?[$@]?(?P<name>[A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?::[^=]{1,80})?"
    r"(?::=|=(?![=>~]))"
)
_NO_DEFINITION = frozenset(
    """
    if for while switch catch return else elif elsif do try with using lock foreach until unless when
    case match throw new delete await yield raise assert print in not and or typeof sizeof defer go
    select super this self echo exit del import from package include require use goto break continue
    except finally guard repeat loop let var const begin then fi done esac end default global nonlocal
    pass puts fixed checked unchecked
    """.split()  # noqa: SIM905
)
_USES = re.compile(r"\b(?:struct|union|enum|class)\b")
_CLOSER = re.compile(r"(?:[\])};,\s]|\b(?:end|fi|done|esac)\b)+$")
_LABEL = re.compile(
    r"#\s*(?:if|else|elif|endif|define|include|undef|pragma|error|warning|line)|[A-Za-z_][\w ]*:(?:\s*//.*)?$|case\b"
)
_LEAVES = re.compile(r"(?:return|raise|throw|yield|exit)\b")
_ASKS_RESULT = re.compile(r"\b(?:return\w*|result\w*|raise[sd]?|throw[sn]?|yield\w*|output\w*|gives?)\b", re.I)
_ASKING = frozenset(
    map(
        stem,
        """return function call class define method value code work define definition implement implementation declare
        type variable constant parameter argument module file line use result caller raise throw invoke""".split(),  # noqa: SIM905
    )
)
"""Words of questions about code that are also words of code."""
_ASKED_LINES = re.compile(r"\blines?\s+(\d{1,7})(?:\s*(?:-|–|to|and)\s*(\d{1,7}))?", re.I)
_NUMBER = re.compile(r"\s*(?P<number>\d{1,7})(?:\t|→|: ?| ?[|│] ?|[ ]{2,}|$)")
_QUOTES = ('"""', "'''", 'r""')
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d[\w.]*")

_ENDS = re.compile(r"\"\"\"|'''|\*/|`")
_HASH_SPANS = re.compile(
    r"(?:\"\"\"[\s\S]*?(?:\"\"\"|\Z)|'''[\s\S]*?(?:'''|\Z))|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|#[^\n]*"
)
_SLASH_SPANS = re.compile(
    r"^[ \t]*/\*[\s\S]*?(?:\*/|\Z)|/\*[^\n]{0,300}?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n]){1,12}'"
    r"|`(?:\\[\s\S]|[^`\\]){0,4000}`",
    re.M,
)
_STATEMENT = re.compile(
    r"(?:return|if|for|while|else|elif|elsif|switch|case|try|catch|except|finally|import(?!\s+\w+:\s)|from\s+[\w.]+\s+import|package"
    r"|#\s*(?:include|define|ifn?def|if|endif|pragma)|use|using|require(?:_\w+)?|export|const|let|var|throw|raise"
    r"|break;?|continue;?|pass|yield|await|do|end|fi|done|esac|then|extern|typedef|static|public|private|protected|final|local|defer|go"
    r"|unless|begin|rescue|ensure|assert|echo|foreach|match|loop|mut|fn|func|namespace"
    r"|(?:CREATE|ALTER|DROP)\s+[A-Z]+|INSERT\s+INTO)\b(?![.\-]|:\s*\S)"
)
_SYNTAX = re.compile(
    r".*(?:[;{]|[\w)\]}\"'],|\)\s*[:{]|=>|\);?|\],?|\(|\|\||&&|\\)$|[})\]]+[;,)]*$|(?:\w+[.:>-]+)*\w+\(.*\)$"
    r"|[$@\w.\[\]\"']+\s*(?::\s*[\w\[\], |.]+)?"
    r"\s*(?:[-+*/|&]|:)?=\s*\S|@\w[\w.]*(?:\(.*)?$|#\["
)
_TRIPLE = re.compile(r"\"\"\"|'''")
_COMMENT = re.compile(r"//|/\*|\*|#(?!\s*(?:include|define|if|endif|pragma|else|undef)|\[)|--\s|<!--|;;")

LEAST_SYNTAX = 0.45
"""Least share of the lines, without comments, that have the form of statements."""

LEAST_CODE = 0.04
"""Least number of lines of code for each line of comment."""

LEAST_WORDS = 0.06
"""Least share of the lines, without comments, that begin with a word of a programming language."""


def begins_statement(line: str) -> bool:
    """Whether a line begins with a word of a programming language."""
    content = line.lstrip()
    return bool(_STATEMENT.match(content) or _KEYWORD.match(content))


def detect(lines: list[str]) -> float:
    """Return how certain it is (0..1) that these sampled lines are source code."""
    code, _ = _without_numbers(lines)
    found = _certainty(code, quoted=False)
    if not found and any(_TRIPLE.search(line) for line in code):
        return _certainty(code, quoted=True)  # The text begins inside a string.
    return found


def _certainty(code: list[str], *, quoted: bool) -> float:
    opened = formed = stated = total = plain = 0
    for line in code:
        content = line.strip()
        if '"""' in content or "'''" in content:
            turns = len(_TRIPLE.findall(content)) % 2 == 1
            plain += 1
            quoted ^= turns
            continue
        if quoted or not content or _COMMENT.match(content):
            plain += 1
            continue
        total += 1
        if _KEYWORD.match(content) and content[-1] in "{:;)(,}>=\\":
            opened += 1
            formed += 1
        elif _STATEMENT.match(content):
            stated += 1
            formed += len(content) < 60 or bool(_SYNTAX.match(content))
        elif _SYNTAX.match(content):
            formed += 1
        elif total - formed > (1 - LEAST_SYNTAX) * len(code):
            return 0.0  # Whatever follows.
    if total < 4 or total < LEAST_CODE * plain:
        return 0.0
    share = formed / total
    if share < LEAST_SYNTAX or stated + opened < max(3, LEAST_WORDS * total):
        return 0.0
    return share


@dataclass(slots=True)
class _Piece:
    """One or more source lines that are shown together."""

    first: int
    last: int
    indent: int
    text: str
    definition: int = -1
    """Index of the definition that this piece opens, or -1."""
    owner: int = -1
    """Index of the definition around it, or -1."""
    plain: bool = False
    """Whether it is a comment or lies in a string of several lines."""


NUMBERED_MARKS = "[…N: line N follows]"


@dataclass(slots=True)
class _Definition:
    name: str
    piece: int
    depth: int
    callable: bool
    constant: bool = False


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """Return the lines as units below their definitions, or None if the lines are too long to be written by hand."""
    raw = text.split("\n")
    if len(text) > 200 * len(raw):
        return None
    code, numbers = _without_numbers(raw)
    pieces, definitions = _Layout(raw, code).run()
    if not pieces:
        return None
    texts = [piece.text for piece in pieces]
    found = scan(texts, focus)
    scores = _scores(pieces, definitions, found, focus)
    _raise_asked_lines(pieces, scores, focus, numbers)
    head = "" if numbers else NUMBERED_MARKS
    return Reading("code", _units(pieces, definitions, scores, budget), head=head, numbered=not numbers)


def defined_lines(text: str) -> set[int]:
    """Return the lines, counted from 1, of the signatures of all definitions."""
    raw = text.split("\n")
    pieces, definitions = _Layout(raw, _without_numbers(raw)[0]).run()
    found: set[int] = set()
    for one in definitions:
        found.update(range(pieces[one.piece].first, pieces[one.piece].last + 1))
    return found


def _without_numbers(raw: list[str]) -> tuple[list[str], list[int] | None]:
    """Return the lines without the numbers of a listing, and these numbers; the lines themselves if there are none."""
    if not _is_numbered(raw[:60]):
        return raw, None
    code: list[str] = []
    numbers: list[int] = []
    for line in raw:
        match = _NUMBER.match(line)
        code.append(line[match.end() :] if match else "")
        numbers.append(int(match["number"]) if match else 0)
    return code, numbers


def _is_numbered(lines: list[str]) -> bool:
    """Whether almost all lines begin with numbers that count up by one."""
    found = [(at, int(match["number"])) for at, line in enumerate(lines) if (match := _NUMBER.match(line))]
    many = sum(1 for line in lines if line.strip())
    if many < 3 or len(found) < 0.8 * many:
        return False
    steps = sum(1 for (at, number), (after, following) in pairwise(found) if following - number == after - at)
    return steps >= 0.8 * (len(found) - 1)


def _spans(text: str, code: list[str], *, begins_inside: bool = False) -> bytearray:
    """Return for each line 1 if it begins inside a comment or string of several lines, else 0.

    A text that begins inside one is read from the first sign that ends it.
    """
    inside = bytearray(len(code))
    hashes = sum(1 for line in code[:400] if line.lstrip()[:2] in ("# ", "#!", "#"))
    slashes = sum(1 for line in code[:400] if line.lstrip()[:2] in ("//", "/*", "* "))
    pattern = _SLASH_SPANS if slashes > hashes or (not hashes and '"""' not in text) else _HASH_SPANS
    line = at = 0
    if begins_inside and (sign := _ENDS.search(text)):
        line, at = text.count("\n", 0, sign.end()), sign.end()
        inside[: line + 1] = b"\1" * (line + 1)
    for match in pattern.finditer(text, at):
        start, end = match.span()
        if end - start < 7 or text.find("\n", start, end) < 0:
            continue
        line += text.count("\n", at, start)
        many = text.count("\n", start, end)
        inside[line + 1 : line + many + 1] = b"\1" * many
        line, at = line + many, end
    return inside


class _Layout:
    """Groups lines to pieces and finds the definitions and their extents."""

    def __init__(self, raw: list[str], code: list[str]) -> None:
        self.raw = raw
        self.code = code
        self.inside = _spans("\n".join(code), code)
        opens = [at for at, line in enumerate(code) if _KEYWORD.match(line.lstrip())] if any(self.inside) else []
        if sum(self.inside[at] for at in opens) > 0.5 * len(opens):
            # The text begins inside a string or comment, so that the inside and the outside are exchanged.
            self.inside = _spans("\n".join(code), code, begins_inside=True)
            if sum(self.inside[at] for at in opens) > 0.5 * len(opens):
                self.inside = bytearray(len(code))
        self.pieces: list[_Piece] = []
        self.definitions: list[_Definition] = []
        self.open: list[tuple[int, int]] = []
        """Indentation and index of the definitions around the present line."""

    def run(self) -> tuple[list[_Piece], list[_Definition]]:
        at, many = 0, len(self.code)
        while at < many:
            line = self.code[at]
            content = line.lstrip()
            if not content or content.isspace():
                at += 1
            elif self.inside[at]:
                self._add(at, at, 0, plain=True)
                at += 1
            else:
                indent = len(line) - len(content)
                if indent and "\t" in line[:indent]:
                    indent = len(line[:indent].expandtabs(4))
                at = self._line(at, indent, content.rstrip())
        return self.pieces, self.definitions

    def _line(self, at: int, indent: int, content: str) -> int:
        """Add the piece that begins in line `at`; return the line after it."""
        first = content[0]
        if self.pieces and first in "])}{;efd" and (_CLOSER.match(content) or content == "{"):
            before = self.pieces[-1]
            # Brackets on lines of their own belong to the line before them.
            if before.last == at and (before.last - before.first < 3 or content == "{"):
                before.text += "\n" + self.raw[at].rstrip()
                before.last = at + 1
            else:
                self._add(at, at, indent)
            return at + 1
        if first in "#/*-" and content[:2] in ("//", "/*", "* ", "*/", "*", "# ", "#", "#!", "--", "##"):
            self._close(indent)
            self._add(at, at, indent, plain=True)
            return at + 1
        if not _LABEL.match(content):
            self._close(indent)
        name, callable_, constant = self._definition(at, indent, content)
        if not name:
            self._add(at, at, indent)
            return at + 1
        last = at if constant else self._end_of_signature(at)
        self._add(at, last, indent, _Definition(name, len(self.pieces), len(self.open), callable_, constant))
        if not constant:
            self.open.append((indent, len(self.definitions) - 1))
        return last + 1

    def _close(self, indent: int) -> None:
        while self.open and self.open[-1][0] >= indent:
            self.open.pop()

    def _add(
        self, at: int, last: int, indent: int, definition: _Definition | None = None, *, plain: bool = False
    ) -> None:
        owner = self.open[-1][1] if self.open else -1
        opened = -1
        if definition is not None:
            opened = len(self.definitions)
            self.definitions.append(definition)
        if at == last and len(self.raw[at]) > LONGEST_LINE:
            for text in pieces_of(self.raw[at]):
                self.pieces.append(_Piece(at + 1, at + 1, indent, text, opened, owner, plain))
                opened = -1
            return
        text = self.raw[at].rstrip() if at == last else "\n".join(line.rstrip() for line in self.raw[at : last + 1])
        self.pieces.append(_Piece(at + 1, last + 1, indent, text, opened, owner, plain))

    def _in_function(self) -> bool:
        return bool(self.open) and self.definitions[self.open[-1][1]].callable

    def _definition(self, at: int, indent: int, content: str) -> tuple[str, bool, bool]:
        """Return name, whether it is callable and whether it is a constant; an empty name if nothing is defined."""
        if len(content) > LONGEST_LINE:
            return "", False, False
        if match := _KEYWORD.match(content):
            rest = content[match.end() :]
            word = content[: match.start("name")]
            uses = content[-1] == ";" and ((_USES.search(word) and re.match(r"\s*[\w*&]", rest)) or "*" in word)
            if not uses and not (rest[:1] == "(" and content[-1] == ";" and self._in_function()):
                return match["name"], bool(re.search(r"\b(?:def\w*|func?|fn|function|sub|macro\w*)\b", word)), False
        if match := _DEFINE.match(content) or _SQL.match(content):
            return match["name"], False, content[0] == "#"
        if "=>" in content or "function" in content or "class" in content or "lambda" in content:
            match = _ASSIGNED.match(content)
            if match:
                return match["name"], True, False
        if "(" in content and (name := self._callable(at, indent, content)):
            return name, True, False
        if "=" in content and not self._in_function() and (match := _CONSTANT.match(content)):
            return match["name"], False, True
        return "", False, False

    def _callable(self, at: int, indent: int, content: str) -> str:
        """Return the name of a function whose header has no keyword: `int main(void) {`, `render() {`, `build() {`."""
        if match := _SHELL.match(content):
            follows = content[-1] == "{" or content[-1] == "}" or self._next(at) == "{"
            return match["name"] if follows and match["name"] not in _NO_DEFINITION else ""
        match = _CALLABLE.match(content)
        if match is None or self._in_function():
            return ""
        kind, name = match["type"], match["name"]
        words = (kind or name).split()
        if not words or words[0] in _NO_DEFINITION or (name in _NO_DEFINITION and not kind) or words[0][0] in ":,.":
            return ""
        end, closed = at, content
        depth = content.count("(") - content.count(")")
        while depth > 0 and end - at < LONGEST_SIGNATURE and end + 1 < len(self.code):
            end += 1
            closed = self.code[end].strip()
            depth += closed.count("(") - closed.count(")")
        if depth:
            return ""
        if (
            closed.endswith(("{", "{}", "{ }", "};"))
            or (closed.endswith("}") and "{" in closed)
            or (kind and "=>" in closed)
        ):
            return name if kind or self.open else ""
        if closed.endswith(";"):
            return name if kind and kind.strip() and "=" not in content.split("(")[0] else ""
        following = self._next(end)
        if following[:1] == "{" or (kind and following.startswith(("throws ", "where "))):
            return name
        return name if following[:1] == ":" and following[:2] != "::" and (kind or self.open) else ""

    def _next(self, at: int) -> str:
        """Return the next line that is not blank."""
        for line in self.code[at + 1 : at + 4]:
            content = line.strip()
            if content:
                return content
        return ""

    def _end_of_signature(self, at: int) -> int:
        """Return the last line of the signature that begins in line `at`."""
        end, depth = at, 0
        while True:
            line = self.code[end]
            depth += line.count("(") - line.count(")") + line.count("[") - line.count("]")
            if depth <= 0 or line.rstrip().endswith(("{", "=>")):
                return end
            if end - at >= LONGEST_SIGNATURE or end + 1 >= len(self.code) or self.inside[end + 1]:
                return at
            end += 1


def _scores(pieces: list[_Piece], definitions: list[_Definition], found: Found, focus: Focus) -> list[float]:
    named = (
        scan([one.name for one in definitions], focus).relevance if definitions and focus else [0.0] * len(definitions)
    )
    lent = _lent(definitions, pieces, named)
    weights, roles = WEIGHTS["code"], WEIGHTS["code"].roles
    relevance = _relevance(found, focus)
    features = Features(replace(found, relevance=relevance, severity=[]), nearness(found))
    asks_result = bool(_ASKS_RESULT.search(focus.text))
    starts = [pieces[one.piece].last for one in definitions]
    scores: list[float] = []
    for piece, score in zip(pieces, features.scores(weights, focus), strict=True):
        score += roles["statement"] if len(piece.text) - piece.indent > SHORT else 0.0
        if piece.definition >= 0:
            one = definitions[piece.definition]
            score += weights.title * named[piece.definition]
            score += roles["value"] if one.constant else roles["outline"] / (1 + 0.5 * one.depth)
            if one.name[:1] == "_":
                score -= 0.1
        elif piece.plain:
            score *= 0.8
        owner = piece.owner
        if owner >= 0 and lent[owner] > 0:
            away = piece.first - starts[owner]
            score += weights.body * lent[owner] * FADE / (FADE + away)
            if asks_result and _LEAVES.match(piece.text.lstrip()):
                score += roles["result"] * lent[owner]
        scores.append(score)
    _raise_introductions(pieces, definitions, named, scores)
    return scores


def _relevance(found: Found, focus: Focus) -> list[float]:
    """Return the relevance of each piece without the words that only say what is asked about code."""
    asking = {at for at, term in enumerate(focus.terms) if term.text in _ASKING and at in found.weights}
    if not asking or len(asking) == len(found.weights):
        return found.relevance
    kept = list(found.relevance)
    for at, terms in enumerate(found.terms):
        if terms and not asking.isdisjoint(terms):
            whole = sum(found.weights[index] for index in terms)
            rest = sum(found.weights[index] for index in terms if index not in asking)
            kept[at] *= (rest + 0.2 * (whole - rest)) / whole if whole else 0.0
    return kept


def _lent(definitions: list[_Definition], pieces: list[_Piece], named: list[float]) -> list[float]:
    """Return what each definition lends to its body: the relevance of its name, or half of what its owner lends."""
    lent = list(named)
    for index, one in enumerate(definitions):
        owner = pieces[one.piece].owner
        if owner >= 0:
            lent[index] = max(lent[index], 0.4 * lent[owner])
    return lent


def _raise_introductions(
    pieces: list[_Piece], definitions: list[_Definition], named: list[float], scores: list[float]
) -> None:
    """Raise comments and decorators directly above a relevant definition, and the first line that explains any."""
    for index, one in enumerate(definitions):
        below = one.piece + 1
        if below < len(pieces) and pieces[below].owner == index and pieces[below].text.lstrip()[:3] in _QUOTES:
            scores[below] += WEIGHTS["code"].roles["explained"]
        at = one.piece - 1
        if named[index] <= 0:
            if not one.constant and _first_comment(pieces, at) >= 0:
                scores[_first_comment(pieces, at)] += WEIGHTS["code"].roles["explained"]
            continue
        while at >= 0 and one.piece - at <= 8:
            piece = pieces[at]
            if piece.last != pieces[at + 1].first - 1 or not (piece.plain or piece.text.lstrip()[:1] in "@[#"):
                break
            scores[at] += 0.6 * WEIGHTS["code"].body * named[index]
            at -= 1


def _first_comment(pieces: list[_Piece], at: int) -> int:
    """Return the first piece of the comment that ends with piece `at`, or -1 if that is no comment."""
    first = -1
    while at >= 0 and pieces[at].plain and pieces[at].last == pieces[at + 1].first - 1 and len(pieces[at].text) < 200:
        if any(sign.isalpha() for sign in pieces[at].text):
            first = at
        at -= 1
        if first - at > 20:
            break
    return first


def _raise_asked_lines(pieces: list[_Piece], scores: list[float], focus: Focus, numbers: list[int] | None) -> None:
    """Raise the lines that the question names by number."""
    for match in _ASKED_LINES.finditer(focus.text):
        first = int(match[1])
        last = max(first, int(match[2] or first))
        for at, piece in enumerate(pieces):
            line = numbers[piece.first - 1] if numbers else piece.first
            if first <= line <= last:
                scores[at] += 2.0
            elif first - 10 <= line <= last + 10:
                scores[at] += 0.5


def _units(pieces: list[_Piece], definitions: list[_Definition], scores: list[float], budget: int) -> list[Unit]:
    chosen = list(range(len(pieces)))
    most = min(MOST_UNITS, 2_000 + 4 * budget)
    if len(pieces) > most:
        kept = set(heapq.nsmallest(most, chosen, key=lambda at: (-scores[at], at)))
        for at in list(kept):
            owner = pieces[at].owner
            while owner >= 0 and definitions[owner].piece not in kept:
                kept.add(definitions[owner].piece)
                owner = pieces[definitions[owner].piece].owner
        chosen = sorted(kept)
    place = {at: index for index, at in enumerate(chosen)}
    return [
        Unit(
            pieces[at].text,
            pieces[at].first,
            pieces[at].last,
            scores[at],
            place.get(definitions[pieces[at].owner].piece) if pieces[at].owner >= 0 else None,
            family=None if pieces[at].definition >= 0 else _VARIABLE.sub("#", pieces[at].text.strip()[:80]),
        )
        for at in chosen
    ]


def _is_code(sample: Sample) -> bool:
    return sample.is_written and detect(sample.lines) > 0


READER = Reader("code", Signs((0.83, _is_code)), read, splits_at="files")
