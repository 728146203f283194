"""What the structural condenser promises for every text: budget, sameness, honesty, and no crash.

The texts come from three places: hypothesis, the generator of the benchmark (shapes
nobody tuned on among them), and, where they lie beside the repository, real outputs
of tools. All of them are also cut, spoiled and mixed, as the outputs of tools are.
"""

import hashlib
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bench.generator.cases import all_shapes, draw
from bench.generator.records import blueprint
from bench.generator.shapes import SHAPES as SHAPES_BY_NAME
from tersely.condensing.budget import Condensed
from tersely.condensing.structural import condense_structurally
from tersely.text.tokens import O200K

SHAPES = all_shapes()
QUESTIONS = (
    "",
    "What went wrong?",
    "Which one is slowest?",
    "not running",
    "since 14:00",
    "over 500 ms",
    'where is "alpha beta"',
    "\0 ☃ {}[]\\",
)


def tries(count: int) -> settings:
    """So many examples, the same ones each time: a test must not fail by chance."""
    return settings(
        max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
    )


@cache
def invented(index: int, seed: int, size: int = 6_000) -> str:
    shape, ask = SHAPES[index % len(SHAPES)]
    return draw(shape, ask, seed, size).text


def spoiled(text: str, rng: Random) -> str:
    """The text as a bad day hands it over: cut, doubled, with bytes lost and line ends mixed."""
    for _ in range(rng.randint(1, 4)):
        at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
        match rng.randrange(8):
            case 0:
                text = text[:end]
            case 1:
                text = text[at:]
            case 2:
                text = text[:at] + text[end:]
            case 3:
                text = (
                    text[:at]
                    + rng.choice(
                        ("\0", "\ud83d", "\x1b[31m", "\u202e", "�", "\r", '"', "{", "]", "\t", "\x85", "\u2028")
                    )
                    * 3
                    + text[at:]
                )
            case 4:
                text = text.replace("\n", "\r\n") if rng.random() < 0.5 else text.replace("\n", "\r\n", 20)
            case 5:
                text = text + "\n" + text[at : at + 2_000]
            case 6:
                text = text.replace(rng.choice('":,{}\n'), rng.choice(("", ";", "\n", "::")), rng.randint(1, 50))
            case _:
                text = "stderr: retry\n" + text[: at or 1] + "\n\n$ next command\n" + text[at:]
        text = text or "x"
    return text


def condense_and_count(text: str, budget: int, focus: str) -> Condensed:
    condensed = condense_structurally(text, budget, focus)
    assert condensed.tokens_after == O200K.count(condensed.text)
    assert condensed.tokens_after <= budget
    return condensed


# --- The budget


@pytest.mark.slow
@tries(120)
@given(
    st.integers(0, len(SHAPES) - 1),
    st.integers(0, 10_000),
    st.one_of(st.integers(16, 64), st.integers(65, 600), st.integers(601, 3_000)),
    st.sampled_from(QUESTIONS),
)
def test_the_budget_holds_for_every_shape_from_16_tokens_up(index: int, seed: int, budget: int, focus: str) -> None:
    condense_and_count(invented(index, seed % 3), budget, focus)


@tries(150)
@given(st.text(max_size=4_000), st.integers(16, 300), st.text(max_size=60))
@example("", 16, "")
@example(" \n\t\r\n " * 2_000, 16, "blank")
@example("\0" * 5_000, 16, "")
@example("\ud800" * 500 + "\n" + "\udfff x " * 500, 40, "\ud800")
@example("a\r\nb\rc\nd\x85e\u2028f\u2029g\x0ch\x0b" * 400, 50, "d")
@example("☃" * 4_000, 16, "☃")
@example("<|endoftext|>" * 400, 20, "<|endoftext|>")
def test_no_text_crashes_it_and_the_budget_holds(text: str, budget: int, focus: str) -> None:
    condense_and_count(text, budget, focus)


LINES = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.sampled_from(
            ["ERROR x", "{", "}", "a: 1", "- b", "a,b,c", "| x | y |", "---", "[1, 2", "# h", "$ ls", "\tat x.y(Z:1)"]
        ),
    )
)


@tries(120)
@given(LINES, st.integers(1, 40), st.integers(16, 200), st.sampled_from(QUESTIONS))
def test_lines_of_any_kind_in_any_order_are_condensed(lines: list[str], times: int, budget: int, focus: str) -> None:
    condense_and_count("\n".join(lines * times), budget, focus)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(max_size=30)),
    lambda inner: st.one_of(st.lists(inner, max_size=8), st.dictionaries(st.text(max_size=12), inner, max_size=8)),
    max_leaves=60,
)


@pytest.mark.slow
@tries(120)
@given(JSON, st.integers(1, 30), st.sampled_from((None, 2)), st.integers(16, 300), st.sampled_from(QUESTIONS))
def test_any_json_is_condensed(value: object, times: int, indent: int | None, budget: int, focus: str) -> None:
    condense_and_count(json.dumps([value] * times, indent=indent, ensure_ascii=False), budget, focus)


@pytest.mark.slow
@tries(150)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 2**32), st.integers(16, 1_500), st.sampled_from(QUESTIONS))
def test_spoiled_texts_are_condensed(index: int, seed: int, budget: int, focus: str) -> None:
    rng = Random(seed)
    condense_and_count(spoiled(invented(index, seed % 3), rng), budget, focus)


@cache
def real_files() -> list[Path]:
    """Outputs of real tools, in a folder `shared` beside the repository."""
    for folder in Path(__file__).resolve().parents:
        data = folder / "shared" / "yardstick" / "data" / "dev"
        if data.is_dir():
            return sorted(
                path
                for path in data.rglob("*")
                if path.is_file() and path.name != "cases.yaml" and path.stat().st_size < 60_000
            )
    return []


@pytest.mark.slow
def test_spoiled_outputs_of_real_tools_are_condensed() -> None:
    files = real_files()
    if not files:
        pytest.skip(
            "There is no folder `shared/yardstick` beside the repository, so there are no real outputs to spoil."
        )
    rng = Random(11)
    for path in rng.sample(files, k=min(60, len(files))):
        text = path.read_text(encoding="utf-8", errors="replace")
        condense_and_count(spoiled(text, rng), rng.choice((16, 60, 300, 1_000)), rng.choice(QUESTIONS))


# --- Hostile texts


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a":[' * 100_000, id="JSON 200,000 deep that never closes"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="JSON 100,000 deep"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, id="objects 100,000 deep"),
        pytest.param("".join(f"{' ' * min(depth, 3_000)}k{depth}:\n" for depth in range(3_500)), id="YAML 3,000 deep"),
        pytest.param("<a>" * 60_000, id="XML 60,000 deep"),
        pytest.param("x7" * 500_000, id="one line of 1 MB without a blank"),
        pytest.param("word " * 200_000, id="one line of 1 MB"),
        pytest.param("a,b;c|d\t" * 60_000, id="one line of delimiters"),
        pytest.param(
            "\n".join(f"{hashlib.md5(str(n).encode()).hexdigest()} {n}" for n in range(40_000)),
            id="40,000 lines, all different",
        ),
        pytest.param("\0" * 500_000, id="nothing but NUL"),
        pytest.param("\n" * 500_000, id="nothing but line ends"),
        pytest.param(" " * 500_000, id="nothing but blanks"),
        pytest.param("aaaa" * 200_000, id="one letter"),
        pytest.param("- " * 200_000, id="bullets that never end"),
        pytest.param('"' * 200_000, id="nothing but quotes"),
        pytest.param("\\" * 200_000, id="nothing but backslashes"),
        pytest.param("| " * 100_000 + "\n" + "|-" * 100_000, id="a table of 100,000 columns"),
        pytest.param(json.dumps({f"k{n}": n for n in range(40_000)}), id="an object of 40,000 keys"),
        pytest.param(
            json.dumps(json.dumps(json.dumps(json.dumps([{"a": "b" * 50}] * 500)))), id="JSON in JSON in JSON"
        ),
    ],
)
def test_hostile_texts_crash_nothing(text: str) -> None:
    condensed = condense_and_count(text, 300, "what failed?")
    assert condensed.text or not text.replace("\0", "").strip()


# --- Sameness


def answers() -> dict[str, str]:
    """One answer for every seventeenth shape and ask, hashed."""
    found = {}
    for index in range(0, len(SHAPES), 17):
        answer = condense_structurally(invented(index, 5), 400, QUESTIONS[index % len(QUESTIONS)]).text
        found["/".join(SHAPES[index])] = hashlib.sha256(answer.encode("utf-8", "replace")).hexdigest()
    return found


IN_ANOTHER_PROCESS = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("promises", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps(module.answers()))
"""


@pytest.mark.process
def test_the_same_text_gives_the_same_answer_in_another_process_with_another_hash_seed() -> None:
    for hash_seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, __file__]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert json.loads(ran.stdout) == answers()


def test_a_text_that_fits_comes_back_untouched() -> None:
    text = "a: 1\r\n\0b: 2\n"
    condensed = condense_structurally(text, 100, "b")
    assert (condensed.text, condensed.lost) == (text, [])


# --- Honesty

OUR_WORDS = frozenset(
    (
        "left lines line of records record rows row more times items values fields with and also from first last to "
        "keys each all "
        "entries out the documents document paragraphs blocks sections characters like frames alike where level shown "
        "kinds that "
        "varying rising falling steady jump sentences equal except numbers "
    ).split()
)
_MARK = re.compile(r"\[[^\[\]\n]*\]$|…|×\s*\d+", re.MULTILINE)
_NAME = re.compile(r"[\w][\w@./:+-]*[\w]")


def plain(text: str) -> str:
    """White space, entities and escapes aside."""
    return " ".join(
        html.unescape(text.replace('\\"', '"').replace("\\n", " ").replace("\\t", " ").replace("\\\\", "\\")).split()
    )


@pytest.mark.slow
@tries(100)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 2), st.integers(60, 1_200), st.sampled_from(QUESTIONS))
def test_every_name_in_the_answer_occurs_in_the_source(index: int, seed: int, budget: int, focus: str) -> None:
    text = invented(index, seed)
    source = plain(text)
    answer = plain(_MARK.sub(" ", condense_structurally(text, budget, focus).text))
    made_up = [name for name in _NAME.findall(answer) if is_a_name(name) and name not in source]
    # Owners are named by their path, joined with dots.
    assert [name for name in made_up if not all(part in source for part in name.split("."))] == []


def is_a_name(word: str) -> bool:
    """Letters and digits together, or a long word: what a reader would search for."""
    has_letter, has_digit = any(letter.isalpha() for letter in word), any(letter.isdigit() for letter in word)
    return word.lower() not in OUR_WORDS and ((has_letter and has_digit) or (has_letter and len(word) > 3))


LINE_SHAPES = (
    *("app log", "system log", "log without levels", "bare messages", "letter and number log"),
    *("csv", "tsv", "aligned table", "meeting", "article"),
)
_OUR_ENDING = re.compile(r"( ×\d+| \((?:also|and) .*?\)| \[[^\[\]]*\])+$")
_OMISSION = re.compile(r"\[…\]|…")
_OUR_LINE = re.compile(r"\[.*\]$|…$|\d+ lines(?:; |$)")


@pytest.mark.slow
@pytest.mark.parametrize("shape", LINE_SHAPES)
def test_every_line_of_the_answer_is_a_line_of_the_source(shape: str) -> None:
    """White space aside; what every line shares may be said once in the head, and `…` stands for what was left out of a
    line.
    """
    asks = [ask for name, ask in SHAPES if name == shape]
    for seed, ask in enumerate(asks):
        case = draw(shape, ask, seed, 12_000)
        source = [" ".join(line.split()) for line in case.text.split("\n")]
        for line in condense_structurally(case.text, 500, case.focus).text.split("\n"):
            if _OUR_LINE.match(line):
                continue
            shown = " ".join(_OUR_ENDING.sub("", line).split())
            pieces = [piece.strip() for piece in _OMISSION.split(shown)]
            if shape == "meeting":
                pieces[:1] = pieces[0].split(
                    ": ", 1
                )  # Who speaks is said again where the beginning of a turn is left out.
            assert any(all(piece in own for piece in pieces) for own in source), line


# --- The account of what is left out

_SHARE = re.compile(r"(\d[\d,]*) of (\d[\d,]*) (\S+)")


def lines_in(runs: Iterable[tuple[int, int]]) -> set[int]:
    return {line for first, last in runs for line in range(first, last + 1)}


def assert_the_account_adds_up(text: str, condensed: Condensed) -> None:
    """Every line is in exactly one of the four lists, which are in order; what is shown is in the text."""
    account = condensed.account
    lists = [account.shown, account.partial, account.folded, account.lost]
    for runs in lists:
        flat = [line for run in runs for line in run]
        assert flat == sorted(flat)
    lines = text.replace("\r\n", "\n").split("\n")
    total = len(lines) - (not lines[-1])
    assert account.total == total
    assert sum(last - first + 1 for runs in lists for first, last in runs) == total
    assert set().union(*map(lines_in, lists)) == set(range(1, total + 1))


@pytest.mark.slow
@tries(150)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 2**32), st.integers(16, 1_500), st.sampled_from(QUESTIONS))
def test_every_line_is_shown_shown_in_part_folded_or_lost(index: int, seed: int, budget: int, focus: str) -> None:
    text = invented(index, seed % 3)
    assert_the_account_adds_up(text, condense_structurally(text, budget, focus))
    text = spoiled(text, Random(seed))
    text = text.encode("utf-8", "replace").decode()
    assert_the_account_adds_up(text, condense_structurally(text, budget, focus))


@pytest.mark.slow
@tries(100)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 2), st.integers(30, 1_500), st.sampled_from(QUESTIONS))
def test_nothing_is_left_out_that_is_not_there(index: int, seed: int, budget: int, focus: str) -> None:
    """Counts never exceed their whole; line ranges are in order and lie in the source; the ending says what `lost` says."""
    text = invented(index, seed)
    condensed = condense_structurally(text, budget, focus)
    assert condensed.lost
    last_line = text.count("\n") + 1
    for entry in condensed.lost:
        for part, whole, _ in _SHARE.findall(entry.what):
            assert 0 < int(part.replace(",", "")) <= int(whole.replace(",", ""))
        flat = [line for run in entry.lines for line in run]
        assert flat == sorted(flat)
        assert all(1 <= line <= last_line for line in flat)
    ending = condensed.text.rsplit("\n", 1)[-1]
    if ending.startswith("[left out: "):
        said = ending.removeprefix("[left out: ").removesuffix("]")
        assert "; ".join(map(str, condensed.lost)).startswith(said)


RECORD_SHAPES = (
    "json list, indented",
    "json list, one line",
    "csv",
    "tsv",
    "aligned table",
    "yaml list",
    "yaml documents",
)


@pytest.mark.slow
@pytest.mark.parametrize("shape", RECORD_SHAPES)
def test_a_record_whose_name_is_lost_is_not_shown(shape: str) -> None:
    for seed in range(4):
        for budget in (120, 400, 1_000):
            rng = Random(seed)
            plan = blueprint(rng, width=5, style="code")
            collection = plan.make(rng, 150)
            collection.identity_at = 0
            text = SHAPES_BY_NAME[shape].write(rng, collection)
            condensed = condense_structurally(text, budget, "")
            lost = lines_in(condensed.account.lost)
            lines = text.split("\n")
            for row in collection.rows:
                name = collection.name(row)
                stands = [number for number, line in enumerate(lines, 1) if name in line]
                if len(stands) == 1 and stands[0] in lost:
                    assert name not in condensed.text, (seed, budget, name)
                elif len(stands) == 1 and len(lines) > 1:
                    assert name in condensed.text, (seed, budget, name)
