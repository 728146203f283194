"""Questions about the files of this machine: source code, configuration, manual pages.

    python -m bench.files                              our engine and BM25+MMR
    python -m bench.files --engine tersely --lost      the questions that lost something
    python -m bench.files --sources DIR                source code of other languages below a folder
    python -m bench.files --grammars --sources DIR     our definitions beside those of tree-sitter
    python -m bench.files --smoke                      two files of each kind

The files are those of Python's library, `/etc` and the installed manual pages; what is missing is named. The questions
are drawn by program: where a function is defined, what it returns, which functions call it, the value of a constant,
what a setting is set to, which setting or option a few words of its explanation belong to. The last two take their
words from the text, so they are easier than those of a person. Whether the answer is kept is known from the syntax tree
of Python, and for other languages from tree-sitter, if `tree-sitter` and `tree-sitter-LANGUAGE` are installed.
"""

import ast
import importlib
import re
import subprocess
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from bench.arguments import parser
from bench.engines import ENGINES, named
from bench.generate import BUDGETS, figure

LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".cs": "c_sharp",
    ".go": "go",
    ".java": "java",
    ".js": "javascript",
    ".php": "php",
    ".py": "python",
    ".rb": "ruby",
    ".rs": "rust",
    ".sh": "bash",
    ".ts": "typescript",
}
CONFIGURATION = (
    "postgresql/*/main/postgresql.conf",
    "login.defs",
    "ssh/ssh_config",
    "ssh/sshd_config",
    "ssl/openssl.cnf",
    "adduser.conf",
    "systemd/system.conf",
    "java-*-openjdk/security/java.security",
    "java-*-openjdk/net.properties",
)
MANUALS = ("grep", "tar", "find", "curl", "git-commit", "wget", "less", "sed", "mount", "ps", "xz", "gpg")
SMALLEST, LARGEST = 12_000, 120_000
"""Characters of a source file that is asked about."""

_FUNCTIONS = re.compile(r"(?:function|method|constructor|singleton_method)(?:_(?:definition|declaration|item))?")
_TYPES = re.compile(
    r"(?:class|interface|struct|enum|trait|record)_(?:definition|declaration|item)|type_spec|class|module"
)
_RETURN = re.compile(r"\s*return\b.{3,90}$")
_CONSTANT = re.compile(r"([A-Z][A-Z0-9_]{4,})(?:\s*:\s*[^=]+)?\s*=\s*\S.{0,90}$")
_SETTING = re.compile(r"\s*#?([A-Za-z][\w.-]{3,})(\s*=\s*|\s+)\S")
_OPTION = re.compile(r"\s{1,12}(-{1,2}[A-Za-z][\w-]*)")


@dataclass(frozen=True)
class Definition:
    name: str
    line: int
    """Counted from 0, like `last`."""
    last: int
    function: bool


@dataclass(frozen=True)
class Question:
    kind: str
    ask: str
    place: str
    text: str
    focus: str
    needles: tuple[str, ...]

    def score(self, output: str) -> float:
        seen = " ".join(output.split())
        return sum(" ".join(needle.split()) in seen for needle in self.needles) / len(self.needles)


def definitions_of(text: str, language: str) -> list[Definition] | None:
    """Return the definitions that the parser of the language finds; None if it is not installed or finds none."""
    if language == "python":
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return None
        nodes = (
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        )
        return [
            Definition(node.name, node.lineno - 1, (node.end_lineno or 1) - 1, not isinstance(node, ast.ClassDef))
            for node in nodes
        ]
    root = _parsed(text, language)
    return None if root is None else list(_definitions_below(root))


def _parsed(text: str, language: str) -> Any:
    try:
        sitter = importlib.import_module("tree_sitter")
        grammar = importlib.import_module(f"tree_sitter_{language}")
    except ImportError:
        return None
    source = next(getattr(grammar, name) for name in ("language", f"language_{language}") if hasattr(grammar, name))
    return sitter.Parser(sitter.Language(source())).parse(text.encode()).root_node


def _definitions_below(root: Any) -> Iterator[Definition]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        function = bool(_FUNCTIONS.fullmatch(node.type))
        if not node.is_named or not (function or _TYPES.fullmatch(node.type)):
            continue
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        while name is not None and name.child_by_field_name("declarator") is not None:
            name = name.child_by_field_name("declarator")
        if name is not None:
            yield Definition(name.text.decode("utf-8", "replace"), name.start_point[0], node.end_point[0], function)


def source_questions(path: Path, text: str, definitions: list[Definition]) -> Iterator[Question]:
    rng = Random(path.name)
    lines = text.split("\n")
    times = Counter(one.name for one in definitions)
    once = [one for one in definitions if times[one.name] == 1 and len(one.name) > 3 and len(lines[one.line]) < 200]
    functions = [one for one in once if one.function and one.last - one.line > 3]
    drawn: list[tuple[str, str, list[str]]] = []
    if once:
        one = rng.choice(once)
        drawn.append(("where", f"Where is {one.name} defined?", [lines[one.line]]))
    returning = {one: [line for line in lines[one.line + 1 : one.last + 1] if _RETURN.match(line)] for one in functions}
    returning = {one: found for one, found in returning.items() if 1 <= len(found) <= 3}
    if returning:
        one = rng.choice(list(returning))
        drawn.append(("returns", f"What does {one.name} return?", returning[one]))
    called = {one: _callers(one, definitions, lines) for one in functions}
    called = {one: found for one, found in called.items() if 2 <= len(found) <= 4}
    if called:
        one = rng.choice(list(called))
        drawn.append(("callers", f"Which functions call {one.name}?", called[one]))
    values = [match for line in lines if (match := _CONSTANT.match(line)) and line[-1] not in "({[\\"]
    if values:
        match = rng.choice(values)
        drawn.append(("value", f"What is the value of {match[1]}?", [match.string]))
    language = LANGUAGES.get(path.suffix, "source")
    for ask, focus, needles in drawn:
        form = rng.choice(("plain", "numbered", "cut"))
        shown = text
        if form == "numbered":
            shown = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))
        elif form == "cut":
            shown = text[max(0, min(map(text.find, needles)) - rng.randrange(1_000, 8_000)) :]
        yield Question(f"source {language}", ask, str(path), shown, focus, tuple(needles))


def _callers(one: Definition, definitions: list[Definition], lines: list[str]) -> list[str]:
    call = re.compile(rf"(?<!\w){re.escape(one.name)}\s*\(")
    return [
        lines[other.line]
        for other in definitions
        if other.function
        and other.name != one.name
        and any(call.search(line) for line in lines[other.line + 1 : other.last + 1])
    ]


def setting_questions(path: Path, text: str) -> Iterator[Question]:
    """Ask for settings by name, and by eight words of the comment above them."""
    rng = Random(path.name)
    lines = text.split("\n")
    found = [(at, match[1]) for at, line in enumerate(lines) if (match := _SETTING.match(line)) and len(line) < 150]
    times = Counter(name for _, name in found)
    rng.shuffle(found)
    many: Counter[str] = Counter()
    for at, name in found:
        if times[name] > 1 or (lines[at].startswith("#") and "=" not in lines[at]):
            continue
        start = at
        while start and at - start < 12 and lines[start - 1].lstrip().startswith(("#", ";")):
            start -= 1
        words = [
            word for word in re.findall(r"[A-Za-z]{4,}", " ".join(lines[start:at])) if word.lower() not in name.lower()
        ]
        ask = "words" if len(words) > 12 else "name"
        if many[ask] >= 5:
            continue
        many[ask] += 1
        begin = rng.randrange(len(words) - 8) if ask == "words" else 0
        focus = f"Which setting: {' '.join(words[begin : begin + 8])}?" if ask == "words" else f"What is {name} set to?"
        yield Question("configuration", ask, str(path), text, focus, (lines[at],))


def option_questions(name: str, text: str) -> Iterator[Question]:
    """Ask for options by six words of their paragraph."""
    rng = Random(name)
    lines = text.split("\n")
    options = [at for at, line in enumerate(lines) if _OPTION.match(line)]
    rng.shuffle(options)
    drawn = 0
    for at in options:
        depth = len(lines[at]) - len(lines[at].lstrip())
        end = at + 1
        while end < len(lines) and lines[end].strip() and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        words = re.findall(r"\b[a-z]{4,}", " ".join(lines[at + 1 : end]))
        if len(words) >= 8 and drawn < 5:
            drawn += 1
            begin = rng.randrange(len(words) - 6)
            focus = f"Which option: {' '.join(words[begin : begin + 6])}?"
            yield Question("manual", "words", name, text, focus, (lines[at],))


def source_files(folders: list[Path], most: int) -> Iterator[tuple[Path, str]]:
    """Yield files of each language and folder in an order that does not change."""
    for folder in folders:
        by_language: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(folder.rglob("*")):
            if path.suffix in LANGUAGES and path.is_file() and SMALLEST < path.stat().st_size < LARGEST:
                by_language[LANGUAGES[path.suffix]].append(path)
        for language, paths in by_language.items():
            Random(language).shuffle(paths)
            for path in paths[:most]:
                yield path, path.read_text("utf-8", "replace")


def manual_page(name: str) -> str:
    """Return a manual page as text; empty if it or `man` is not installed."""
    try:
        shown = subprocess.run(["man", name], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return re.sub(r".\x08", "", shown)


def all_questions(folders: list[Path], most: int) -> Iterator[Question]:
    unknown: set[str] = set()
    for path, text in source_files(folders, most):
        definitions = definitions_of(text, LANGUAGES[path.suffix])
        if definitions is None:
            unknown.add(LANGUAGES[path.suffix])
        else:
            yield from source_questions(path, text, definitions)
    if unknown:
        print(
            f"No parser here for {', '.join(sorted(unknown))}: install tree-sitter and its grammars to ask about them."
        )
    settings = [path for pattern in CONFIGURATION for path in sorted(Path("/etc").glob(pattern))][:most]
    for path in settings:
        try:
            yield from setting_questions(path, path.read_text("utf-8", "replace"))
        except PermissionError:
            print(f"{path} may not be read here.")
    if not settings:
        print("None of the configuration files is on this machine.")
    pages = {name: text for name in MANUALS[:most] if (text := manual_page(name))}
    for name, text in pages.items():
        yield from option_questions(name, text)
    if not pages:
        print("There are no manual pages on this machine.")


def compare_grammars(folders: list[Path], most: int) -> None:
    """Print the share of the parser's definitions that the reader of source code finds, by language."""
    from tersely.condensing.readers import source_code

    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for path, text in source_files(folders, most):
        language = LANGUAGES[path.suffix]
        definitions = definitions_of(text, language)
        if not definitions:
            continue
        ours = source_code.defined_lines(text)
        inside = {line for one in definitions if one.function for line in range(one.line + 1, one.last + 1)}
        outside = [one for one in definitions if one.line not in inside]
        found[language][0] += 1
        found[language][1] += len(outside)
        found[language][2] += sum(one.line + 1 in ours for one in outside)
    print("| language | files | definitions outside of functions | found |\n|---|---|---|---|")
    for language, (files, all_, ours_) in sorted(found.items()):
        print(f"| {language} | {files} | {all_} | {ours_ / max(1, all_):.3f} |")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--engine", default="tersely,bm25+mmr", help="separated by commas")
    arguments.add_argument("--sources", type=Path, action="append", default=[], help="more folders with source code")
    arguments.add_argument("--grammars", action="store_true", help="compare definitions with those of tree-sitter")
    arguments.add_argument(
        "--lost", action="store_true", help="print the questions that lost something at 1,000 tokens"
    )
    given = arguments.parse_args()
    most = 2 if given.smoke else 12
    folders = [
        Path(sysconfig.get_path("stdlib")) / "asyncio",
        Path(sysconfig.get_path("stdlib")) / "email",
        *given.sources,
    ]
    if given.grammars:
        compare_grammars(folders, 25)
        return
    questions = list(all_questions(folders, most))
    engines = list(named(given.engine))
    scores: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for engine in engines:
        began, size = time.process_time(), 0
        for question in questions:
            for budget in BUDGETS:
                score = question.score(ENGINES[engine](question.text, budget, question.focus))
                size += len(question.text)
                scores[engine, question.kind, budget].append(score)
                scores[engine, f"{question.kind.split()[0]}: {question.ask}", budget].append(score)
                if given.lost and score < 1 and budget == 1000:
                    print(f"{engine}: {question.place}: {question.focus}")
        print(f"{engine}: {size / 1e6 / max(1e-9, time.process_time() - began):.1f} MB/s")
    print(f"\n| questions | {' | '.join(engines)} |\n|---|{'---|' * len(engines)}")
    for kind in sorted({kind for _, kind, _ in scores}):
        cells = ("/".join(figure(_mean(scores[engine, kind, budget])) for budget in BUDGETS) for engine in engines)
        print(f"| {kind} ({len(scores[engines[0], kind, BUDGETS[0]])}) | {' | '.join(cells)} |")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
