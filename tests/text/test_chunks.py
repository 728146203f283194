"""Chunks: what stays together, what is always true, and what is refused."""

import itertools
import json
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.errors import InputError
from tersely.text import tokens
from tersely.text.chunks import Chunk, chunk
from tersely.text.tokens import O200K, Tokenizer

CL100K = Tokenizer("cl100k_base")
UNKNOWN_MODEL = Tokenizer("o200k_base", 1.25)


def words(count: int, seed: int = 1) -> str:
    return " ".join(
        random.Random(seed).choices("the disk of node seven filled up while backup was running again".split(), k=count)
    )


def sources(text: str, chunks: list[Chunk]) -> list[str]:
    return [text[part.start : part.end] for part in chunks]


def check(text: str, chunks: list[Chunk], size: int, tokenizer: Tokenizer = O200K) -> None:
    """What holds for every text, size, overlap and strategy."""
    reached = 0
    previous_start = -1
    for part in chunks:
        assert part.tokens == tokenizer.count(part.text) <= size
        assert part.text.endswith(text[part.start : part.end])
        assert previous_start < part.start <= reached < part.end, "a gap, or a chunk that adds nothing"
        assert part.line == 1 + text.count("\n", 0, part.start)
        previous_start, reached = part.start, part.end
    assert reached == len(text) or not text.strip()


# Markdown


def test_text_that_fits_is_one_chunk_without_change() -> None:
    text = "# Title\n\nA paragraph.\n"
    assert chunk(text) == [Chunk(text=text, start=0, end=len(text), line=1, tokens=O200K.count(text))]


def test_each_chunk_carries_the_whole_path_of_headings_it_stands_under() -> None:
    linux = f"### Linux\n\n{words(60)}.\n\n{words(60)}.\n\n{words(60)}.\n\n"
    text = f"# Guide\n\n{words(10)}.\n\n## Install\n\n{words(30)}.\n\n{linux}# Other\n\n{words(60)}.\n"
    parts = chunk(text, size=110, overlap=0)

    check(text, parts, 110)
    inside_linux = [part for part in parts if part.start > text.index("### Linux") and part.end < text.index("# Other")]
    assert inside_linux
    assert all(part.text.startswith("# Guide\n## Install\n### Linux\n\n") for part in inside_linux)
    assert parts[-1].text.startswith("# Other\n\n"), "a heading of the same level ends the path"


def test_underlined_headings_are_carried_too() -> None:
    text = f"Guide\n=====\n\nInstall\n-------\n\n{words(60)}.\n\n{words(60)}.\n"
    assert chunk(text, size=90, overlap=0)[-1].text.startswith("# Guide\n## Install\n\n")


def test_a_heading_moves_on_with_the_text_it_heads() -> None:
    for before in (20, 40, 60):
        text = f"{words(before)}.\n\n# Next\n\n## Step\n\n{words(60)}.\n"
        assert sources(text, chunk(text, size=80, overlap=0))[1].startswith("# Next\n\n## Step\n\n"), before


def test_a_heading_inside_a_code_fence_is_not_a_heading() -> None:
    """A predecessor took `# comment` for a heading and carried it along."""
    text = f"# Real\n\n```sh\n# comment\nmake\n```\n\n{words(60)}.\n\n{words(60)}.\n"
    parts = chunk(text, size=90, overlap=0)

    assert len(parts) > 1
    assert all("comment" not in part.text for part in parts[1:])
    assert all(part.text.startswith("# Real\n") for part in parts[1:])


def test_a_huge_heading_is_not_carried_into_every_chunk() -> None:
    """A 10,000-token heading once inflated 34k tokens to 185k."""
    text = f"# {words(10_000)}\n\n" + "".join(f"{words(40, seed)}.\n\n" for seed in range(600))
    parts = chunk(text, size=1_000, overlap=0)

    check(text, parts, 1_000)
    assert sum(part.tokens for part in parts) < 1.5 * O200K.count(text)


def test_many_long_headings_leave_at_least_three_quarters_of_a_chunk_to_the_text() -> None:
    path = "".join(f"{'#' * level} {words(40, level)}\n\n" for level in range(1, 7))
    text = path + "".join(f"{words(20, seed)}.\n\n" for seed in range(100))
    parts = chunk(text, size=200, overlap=0)

    check(text, parts, 200)
    assert all(O200K.count(part.text[: len(part.text) - (part.end - part.start)]) <= 50 for part in parts)
    assert all(words(40, 6) in part.text for part in parts[-3:]), "the nearest heading is the one that stays"


def test_a_fence_and_a_table_that_fit_stay_whole_even_where_headings_leave_too_little_room() -> None:
    fence = "```python\n" + "".join(f"value_{number} = load({number})\n\n" for number in range(12)) + "```"
    table = "| name | state |\n|---|---|\n" + "".join(f"| pod-{number} | running |\n" for number in range(12))
    bare = "name | state\n---|---\n" + "".join(f"pod-{number} | running\n" for number in range(12))
    for block in (fence, table.rstrip(), bare.rstrip()):
        text = f"# {words(12)}\n\n{words(30)}.\n\n{block}\n\n{words(30)}.\n"
        for size in range(O200K.count(block), O200K.count(block) + 40):
            parts = chunk(text, size=size, overlap=0)
            check(text, parts, size)
            assert any(block in part.text for part in parts), size


@pytest.mark.parametrize(
    "fence",
    [
        "~~~~\n# a\n\n```\nb\n~~~~",
        "````md\n```\n# a\n```\n\n# b\n````",
        "- ```sh\n  # a\n\n  make\n  ```",
        "> ```sh\n> # a\n>\n> make\n> ```",
        "```\r\n# a\r\n\r\nmake\r\n```",
        "  ```\n# a\n\n> ```\n\nmake\n  ```",
    ],
)
def test_fences_of_every_kind_stay_whole(fence: str) -> None:
    for before in range(1, 40):
        text = f"{words(before)}:\n{fence}\n\n{words(40)}.\n"
        assert any(fence in part.text for part in chunk(text, size=50, overlap=0)), before


def test_a_table_right_behind_a_paragraph_stays_whole() -> None:
    for table in (
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |",
        "a | b\n:-: | ---\n1 | 2\n3 | 4",
        " id | name\n----+------\n  1 | x\n  2 | y",
        "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+",
    ):
        for before in range(1, 60):
            text = f"{words(before)}:\n{table}\nand {words(40)}.\n"
            assert any(table in part.text for part in chunk(text, size=60, overlap=0)), before


def test_a_fence_that_does_not_fit_is_cut_between_lines() -> None:
    fence = "```python\n" + "".join(f"value_{number} = load({number}, 'of disk')\n" for number in range(200)) + "```\n"
    parts = sources(fence, chunk(fence, size=100, overlap=0))

    assert len(parts) > 5
    assert all(part.endswith("\n") for part in parts)


def test_an_unclosed_fence_reaches_to_the_end() -> None:
    text = f"# Real\n\n{words(50)}\n\n```\n" + "# comment\n\nmake\n" * 100
    parts = chunk(text, size=80, overlap=0)

    assert len(parts) > 3
    assert all(part.text.startswith("# Real\n") for part in parts)


def test_paragraphs_with_windows_line_ends_are_seen() -> None:
    paragraphs = [f"{words(30, seed)}.\r\n\r\n" for seed in range(10)]
    text = "".join(paragraphs)
    for part in sources(text, chunk(text, size=80, overlap=0)):
        assert part.endswith("\r\n\r\n")


def test_a_horizontal_rule_is_a_better_place_to_cut_than_a_paragraph() -> None:
    sections = [f"{words(10, seed)}.\n\n{words(50, seed)}.\n\n" for seed in range(6)]
    text = "---\n\n".join(sections)
    parts = sources(text, chunk(text, size=O200K.count(sections[0]) + 15, overlap=0))

    assert [part.removesuffix("---\n\n") for part in parts] == sections


def test_a_long_list_is_cut_between_its_items_and_nested_ones_stay_with_theirs() -> None:
    item = "- the first thing to look at\nwhich goes on here\n  - and has a detail\n"
    text = item * 60
    for size in range(80, 130, 5):
        for part in sources(text, chunk(text, size=size, overlap=0)):
            assert part.startswith("- the first")


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    for sentence in (
        "The disk of node 7 filled up (again), see e.g. the log. ",
        "ディスクがいっぱいになりました。",
        "डिस्क भर गई। ",
    ):
        text = sentence * 100
        for part in sources(text, chunk(text, size=120, overlap=20)):
            assert part.strip().endswith(sentence.strip())
            assert part.strip().startswith(sentence[:4])


def test_small_neighbours_are_packed_together() -> None:
    text = "".join(f"Paragraph {number} is short.\n\n" for number in range(400))
    parts = chunk(text, size=200, overlap=0)

    assert all(part.tokens > 180 for part in parts[:-1])


# Data


def test_logs_are_cut_between_lines_and_a_stack_trace_stays_with_its_line() -> None:
    entry = (
        "2026-11-15T05:00:00Z ERROR worker-7 failed on job 12\n    at run (worker.js:10)\n    at main (index.js:3)\n"
    )
    text = entry * 100
    for part in sources(text, chunk(text, size=300, overlap=50)):
        assert part.startswith("2026-11")
        assert part.endswith("(index.js:3)\n")


def test_json_lines_are_cut_between_records() -> None:
    text = "".join(json.dumps({"id": number, "text": words(10, number)}) + "\n" for number in range(200))
    for part in sources(text, chunk(text, size=300, overlap=50)):
        assert all(json.loads(line) for line in part.splitlines())


def test_indented_json_is_cut_between_records() -> None:
    text = json.dumps([{"id": number, "tags": ["a", "b"], "of": {"x": number}} for number in range(200)], indent=2)
    parts = sources(text, chunk(text, size=400, overlap=50))

    assert len(parts) > 10
    for part in parts[:-1]:
        assert json.loads("[" + part.removeprefix("[").strip().removesuffix(",") + "]")


def test_json_on_one_line_is_cut_between_records() -> None:
    records = [
        {"id": number, "note": f'he said "{words(5, number)}", or {{so}}', "of": [1, 2, 3]} for number in range(300)
    ]
    for text in (json.dumps(records), json.dumps({"total": 300, "items": records})):
        parts = sources(text, chunk(text, size=400, overlap=50))
        assert len(parts) > 10
        for part in parts[1:-1]:
            assert json.loads("[" + part.strip().removesuffix(",") + "]")


def test_a_line_that_fits_alone_is_never_cut_however_little_text_a_token_covers() -> None:
    """Runs of blanks or dashes have over a hundred characters to a token: length says little."""
    for line in ("-" * 4_000, "id" + " " * 5_000 + "name", "x" * 700):
        size = O200K.count(line)
        text = f"{words(size)}\n{line}\n{words(size)}\n"
        assert any(line in part.text for part in chunk(text, size=size, overlap=0))


def test_a_value_is_cut_only_when_it_does_not_fit_alone() -> None:
    long = words(600, seed=2)
    text = json.dumps([{"id": 1, "short": words(30)}, {"id": 2, "long": long}, {"id": 3, "short": words(30)}])
    parts = sources(text, chunk(text, size=100, overlap=0))

    assert sum(words(30) in part for part in parts) == 2
    assert sum(long[:50] in part for part in parts) == 1


# By tokens


def test_the_token_strategy_cuts_at_a_fixed_size_with_overlap() -> None:
    text = words(5_000)
    parts = chunk(text, size=500, overlap=50, strategy="token")

    check(text, parts, 500)
    assert all(part.tokens > 490 for part in parts[:-1])
    for before, after in itertools.pairwise(parts):
        assert 40 <= O200K.count(text[after.start : before.end]) <= 50


def test_overlap_applies_where_the_semantic_strategy_has_to_cut_by_tokens_and_only_there() -> None:
    text = f"{words(50)}.\n\n{words(3_000)}\n\n{words(50)}.\n"
    parts = chunk(text, size=500, overlap=50)

    check(text, parts, 500)
    shared = [O200K.count(text[after.start : before.end]) for before, after in itertools.pairwise(parts)]
    assert shared[0] == 0
    assert all(40 <= found <= 50 for found in shared[1:-1])


@pytest.mark.parametrize("strategy", ["semantic", "token"])
def test_no_character_is_torn_apart(strategy: str) -> None:
    """Token cuts corrupted multibyte characters in 35 of 76 chunks once."""
    family, accented, flag = "👩\u200d👩\u200d👧", "e\u0301", "\ud83d\ude00"
    for unit in (family, accented, flag, "語", "𝔘", "\r\n"):
        text = "x" + unit * 400
        parts = chunk(text, size=60, overlap=7, strategy=strategy)
        check(text, parts, 60)
        assert "\ufffd" not in "".join(part.text for part in parts)
        if unit != family:
            assert all((part.end - 1) % len(unit) == 0 for part in parts), unit


# What is always true

FRAGMENTS = [
    *(
        "# Head\n",
        "## Sub head\n",
        "###### deep\n",
        "#\n",
        "Title\n===\n",
        "Sub\n---\n",
        "\n---\n\n",
        "# " + "long heading " * 20 + "\n",
    ),
    *(
        "A sentence is here. And more! Yes? ok\n",
        "\n",
        "\n\n",
        "\r\n\r\n",
        "\r",
        " ",
        "\t",
        "   " * 40,
        "/",
        "//x\n",
        "!",
        "a" * 50,
        "-" * 60,
    ),
    *(
        "```py\n# not a heading\n\ncode()\n```\n",
        "~~~\nx\n~~~\n",
        "```\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "a | b\n--- | ---\n1 | 2\n",
    ),
    *(
        "- item one\n",
        "  - nested\n",
        "1. first\n",
        '{"a": 1, "b": [1,2,{"c":"x, y"}]}\n',
        '{"a":1}',
        "}\n",
        '["',
        '\\"',
        ",",
    ),
    *(
        "2026-01-01 INFO it happened id=3\n",
        "    at foo.bar(Baz.java:3)\n",
        "    ",
        "<|endoftext|>",
        "日本語の文章です。次の文。",
        "e\u0301\u0301",
    ),
    *("😀", "👩\u200d👧", "\ud83d", "\ud83d\ude00", "\ude00", "\x85", "\u2028", "\x0b", "\x1c", "\x00", "\u3000"),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=50).map("".join)


@pytest.mark.slow
@given(
    text=TEXTS,
    size=st.integers(6, 60),
    share=st.floats(0, 1, exclude_max=True),
    strategy=st.sampled_from(["semantic", "token"]),
    tokenizer=st.sampled_from([O200K, CL100K, UNKNOWN_MODEL]),
)
@settings(max_examples=400, deadline=None)
def test_nothing_is_lost_and_nothing_is_too_large(
    text: str, size: int, share: float, strategy: str, tokenizer: Tokenizer
) -> None:
    overlap = int(share * size)
    parts = chunk(text, size, overlap, strategy, tokenizer=tokenizer)

    check(text, parts, size, tokenizer)
    assert chunk(text, size, overlap, strategy, tokenizer=tokenizer) == parts


@given(text=TEXTS, size=st.integers(1, 5), strategy=st.sampled_from(["semantic", "token"]))
@settings(deadline=None)
def test_below_the_size_of_a_character_every_chunk_is_one_character_at_least(
    text: str, size: int, strategy: str
) -> None:
    """Characters are not cut: four tokens for one is the most there is, and a size below that cannot be kept to."""
    parts = chunk(text, size, 0, strategy)

    assert "".join(sources(text, parts)) == text or not text.strip()
    assert all(part.tokens <= size or part.end - part.start == 1 for part in parts)


def test_text_without_anything_visible_has_no_chunks() -> None:
    for nothing in ("", " ", "\n \t\r\n", "\u3000" * 10_000):
        assert chunk(nothing, size=10, overlap=0) == []
        assert chunk(nothing, size=10, overlap=0, strategy="token") == []


@pytest.mark.parametrize(
    ("size", "overlap"),
    [(100, 100), (100, 2_000), (0, 0), (-5, 0), (100, -1), (400, 500)],
)
def test_nonsense_settings_are_refused_with_both_values_in_the_message(size: int, overlap: int) -> None:
    """overlap ≥ size looped for ever once; a negative overlap lost text."""
    for strategy in ("semantic", "token"):
        with pytest.raises(InputError) as refused:
            chunk("some text", size=size, overlap=overlap, strategy=strategy)
        assert str(size) in str(refused.value)
        assert str(overlap) in str(refused.value)


def test_a_small_size_alone_is_enough_since_the_overlap_follows_it() -> None:
    text = words(3_000)
    parts = chunk(text, size=160, strategy="token")

    check(text, parts, 160)
    assert all(8 <= O200K.count(text[after.start : before.end]) <= 10 for before, after in itertools.pairwise(parts))


def test_an_unknown_strategy_is_refused_with_the_known_ones_in_the_message() -> None:
    with pytest.raises(InputError, match=r"'paragraphs'.*'semantic'.*'token'"):
        chunk("some text", strategy="paragraphs")


# Size


class Meter:
    """A tiktoken encoding that adds up how many characters it was given."""

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding
        self.characters = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.characters += len(text)
        found: list[int] = self.encoding.encode_ordinary(text)
        return found

    def decode_bytes(self, ids: list[int]) -> bytes:
        found: bytes = self.encoding.decode_bytes(ids)
        return found


def work(text: str, size: int, strategy: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many characters are tokenized and how many calls are made to chunk a text."""
    meter = Meter(tokens._encoding("o200k_base"))
    calls = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += 1

    with monkeypatch.context() as patched:
        patched.setitem(tokens._encodings, "o200k_base", meter)
        sys.setprofile(count_call)
        try:
            chunk(text, size=size, overlap=size // 16, strategy=strategy)
        finally:
            sys.setprofile(None)
    return meter.characters, calls


SHAPES: dict[str, Callable[[int], str]] = {
    "prose": lambda n: f"{words(12)}.\n\n" * (n // 60),
    "log lines": lambda n: "2026-11-15 INFO pod-7 restarted 3 times\n" * (n // 40),
    "one line of words": lambda n: "word " * (n // 5),
    "one line of sentences": lambda n: "It failed. " * (n // 11),
    "one letter": lambda n: "a" * n,
    "spaces": lambda n: "x" + " " * n + "x",
    "line breaks": lambda n: "x" + "\n" * n + "x",
    "kanji": lambda n: "漢字" * (n // 4),
    "lone surrogates": lambda n: "\ud83d" * n,
    "brackets": lambda n: "[1," * (n // 3),
    "open quotes": lambda n: '{"' + '\\"' * (n // 2),
    "headings": lambda n: "# a\n" * (n // 4),
    "ever deeper headings": lambda n: "".join(f"{'#' * (1 + i % 6)} {words(30)}\n" for i in range(n // 160)),
    "fences": lambda n: "```\n" * (n // 4),
    "fences of every length": lambda n: "".join("`" * length + "\n" for length in range(int((2 * n) ** 0.5), 3, -1)),
    "tables": lambda n: "| a | b |\n|---|---|\n" * (n // 20),
    "slashes": lambda n: "!\n/\n" * (n // 4),
    "full stops": lambda n: "." * n,
    "a huge indent on every line": lambda n: (" " * 400 + "x\n") * (n // 400),
}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["semantic", "token"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_grows_no_faster_than_the_text(shape: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (work(SHAPES[shape](length), 100, strategy, monkeypatch) for length in (50_000, 200_000))

    assert large[0] < 6.5 * small[0]
    assert large[1] < 6.5 * small[1]
    assert large[0] < 12 * 200_000, "and no character is tokenized more than a few times"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-11-15T05:00:00Z INFO pod-7 restarted 3 times, memory 512 MB\n" * 160_000, id="10 MB of log"),
        pytest.param("x" + " " * 5_000_000, id="5 MB of spaces"),
        pytest.param("word " * 200_000, id="one line of 1 MB"),
        pytest.param("\ud800" * 100_000, id="lone surrogates"),
        pytest.param("a" * 1_000_000, id="1 MB of one letter"),
    ],
)
def test_large_texts_come_out_whole(text: str) -> None:
    parts = chunk(text)

    assert all(part.tokens <= 8_000 for part in parts)
    assert parts[0].start == 0
    assert parts[-1].end == len(text)
    assert all(after.start <= before.end for before, after in itertools.pairwise(parts))
