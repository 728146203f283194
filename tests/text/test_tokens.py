"""Counting tokens: exact, offline, and for any text."""

import base64
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

from tersely.text import tokens
from tersely.text.tokens import (
    LONGEST_TOKEN,
    O200K,
    UNKNOWN_MODEL_FACTOR,
    EncodingName,
    LineTokenizer,
    Tokenizer,
    count_tokens,
    is_seam,
    tokenizer_for,
)

CL100K = Tokenizer("cl100k_base")
UNKNOWN_MODEL = Tokenizer("o200k_base", UNKNOWN_MODEL_FACTOR)
NAMES: tuple[EncodingName, ...] = ("o200k_base", "cl100k_base")

SMALLER: dict[EncodingName, Any] = {}

NASTY = [
    *(
        "a",
        "B",
        "word",
        "1",
        "12345",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\t",
        "/",
        "//",
        "!",
        "...",
        "'s",
        "'LL",
        "’",
        "_",
        "-",
        "---",
    ),
    *(
        "。",
        "、",
        "日本",
        "カナ",
        "ひら",
        "é",
        "e\u0301",
        "\u200d",
        "😀",
        "\u3000",
        "\x0b",
        "\x0c",
        "\x85",
        "\u2028",
        "\x1c",
        "\x00",
        "\u00a0",
    ),
    *(
        "\ud83d",
        "\ude00",
        "|",
        "#",
        "```",
        '"',
        ",",
        "{",
        "}",
        "Ω",
        "ß",
        "ǅ",
        "ا",
        "ไทย",
        "<|endoftext|>",
        "<|im_start|>",
        "\ufeff",
    ),
]
TEXTS = st.lists(st.sampled_from(NASTY) | st.text(max_size=4), max_size=40).map("".join)


def plain(text: str, name: EncodingName) -> int:
    """What tiktoken says when it gets the text in one go."""
    return len(tokens._encoding(name).encode_ordinary(text))


# Exact


@pytest.mark.parametrize("name", NAMES)
def test_vocabulary_and_pattern_are_those_that_tiktoken_would_download(
    name: EncodingName, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, str] = {}

    def note_the_hash(address: str, expected_hash: str) -> dict[bytes, int]:
        asked["sha256"] = expected_hash
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", note_the_hash)
    published = getattr(openai_public, name)()
    ours = sorted(tokens._ranks(name, common=False).items(), key=lambda pair: pair[1])
    in_their_format = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ours)

    assert hashlib.sha256(in_their_format).hexdigest() == asked["sha256"]
    assert tokens._PATTERNS[name] == published["pat_str"]


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [("", 0, 0), ("antidisestablishmentarianism", 6, 6), ("2 + 2 = 4", 7, 7), ("お誕生日おめでとう", 8, 9)],
)
def test_counts_are_those_that_openai_publishes(text: str, o200k: int, cl100k: int) -> None:
    assert (O200K.count(text), CL100K.count(text)) == (o200k, cl100k)


@pytest.mark.parametrize("name", NAMES)
def test_long_texts_count_exactly_as_in_one_go(name: EncodingName) -> None:
    """They go through tiktoken in pieces; characters divided by four would be wrong by a third on JSON and by most
    on Japanese.
    """
    texts = {
        "prose": "The disk of node 7 filled up, while the backup was running again. " * 2_000,
        "json": json.dumps([{"id": number, "state": "running", "at": [number, None]} for number in range(4_000)]),
        "japanese": "ディスクが正午にいっぱいになりました。再起動して、空き容量を増やしました。" * 3_000,
        "korean": "디스크가 정오에 가득 찼습니다. 다시 시작했습니다!\n" * 3_000,
        "log": "".join(
            f"2026-11-15T05:{number % 60:02}Z [/api/v1] status={number} path=/x/y\n/var/log\n"
            for number in range(3_000)
        ),
        "crlf": "one line!\r\n\r\n  another one\t\r\n" * 4_000,
    }
    for kind, text in texts.items():
        assert len(text) > 3 * tokens._PIECE, kind
        assert Tokenizer(name).count(text) == plain(text, name), kind
        assert Tokenizer(name).encode(text) == tokens._encoding(name).encode_ordinary(text), kind


def test_counts_do_not_add_up_everywhere_and_parts_may_have_fewer_tokens_than_the_whole() -> None:
    """Why counts may be added up at a seam only."""
    assert O200K.count("!\n") + O200K.count("/x") == 2
    assert O200K.count("!\n/x") == 3
    assert not is_seam("!\n/x", 2)


@given(TEXTS)
@example("a)\n/b)\r\n//c")
@example("a!\n /b  c\n\n d")
@settings(max_examples=300, deadline=None)
def test_counts_add_up_at_every_seam(text: str) -> None:
    """The rule behind counting in pieces, and behind adding up the parts of a chunk."""
    for place in range(1, len(text)):
        if is_seam(text, place):
            for name in NAMES:
                assert plain(text[:place], name) + plain(text[place:], name) == plain(text, name), (place, text)


@pytest.mark.slow
@given(TEXTS, st.sampled_from(NAMES), st.integers(1, 6))
@settings(deadline=None)
def test_nasty_texts_count_as_in_one_go_when_they_grow_long(text: str, name: EncodingName, spread: int) -> None:
    long = (text + " a" * spread + "\n") * (40_000 // (len(text) + 3))
    assert Tokenizer(name).count(long) == plain(long, name)


@pytest.mark.parametrize("name", NAMES)
def test_no_token_is_longer_than_we_assume(name: EncodingName) -> None:
    values = tokens._encoding(name).token_byte_values()
    assert max(len(value.decode("utf-8", "ignore")) for value in values) <= LONGEST_TOKEN


# Any text


def test_special_tokens_in_a_text_are_ordinary_text() -> None:
    """A tokenizer that raised on them let pages through unsummarized: an attacker's bypass."""
    assert O200K.count("<|endoftext|>") == plain("<|endoftext|>", "o200k_base") > 1
    assert O200K.head("<|endoftext|> and more", 3) != ""


@pytest.mark.parametrize("unit", [" ", "\n", "a", "-", "漢", "\ud800", "\t", "\u200b"])
def test_a_long_run_of_one_character_is_counted_in_little_work(unit: str) -> None:
    """A million white space characters in one go panic tiktoken with an error that `except Exception` does not
    catch.
    """
    assert O200K.count(unit * 1_000_000) > 1_000


def test_five_megabytes_of_spaces_are_counted() -> None:
    assert 39_000 < O200K.count(" " * 5_000_000) < 41_000


def test_lone_surrogates_are_counted() -> None:
    assert O200K.count("a\ud83db\udc00") > 0
    assert O200K.head("\ud83d" * 100, 5)


# Offline


@pytest.mark.process
def test_counting_needs_no_network_and_writes_no_cache(tmp_path: Any) -> None:
    """tiktoken downloads its vocabulary at first use: a machine without internet could not start."""
    program = (
        "import socket\n"
        "def refuse(*arguments, **named): raise AssertionError('somebody wants the network')\n"
        "socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse\n"
        "from tersely.text.tokens import count_tokens\n"
        "print(count_tokens('hello world'), count_tokens('hello world', 'gpt-4'))\n"
    )
    environment = {"TIKTOKEN_CACHE_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": ""}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )

    assert (finished.stdout, finished.stderr) == ("2 2\n", "")
    assert not list(tmp_path.iterdir())


@given(TEXTS | st.text(st.characters(max_codepoint=0xFF) | st.characters(min_codepoint=0x2000, max_codepoint=0x2FFF)))
@settings(deadline=None)
def test_the_smaller_vocabulary_encodes_texts_without_rare_characters_alike(text: str) -> None:
    for name in NAMES:
        if name not in SMALLER:
            SMALLER[name] = tokens._built(name, common=True)
        common = tokens._RARE.sub("x", text)
        assert SMALLER[name].encode_ordinary(common) == tokens._encoding(name).encode_ordinary(common)


def test_the_smaller_vocabulary_has_every_token_that_texts_without_rare_characters_can_contain() -> None:
    common_bytes = {byte for code in (*range(0x100), *range(0x2000, 0x3000)) for byte in chr(code).encode()}
    for name in NAMES:
        whole = tokens._built(name, common=False)._mergeable_ranks
        common = {token: rank for token, rank in whole.items() if common_bytes.issuperset(token)}
        assert tokens._built(name, common=True)._mergeable_ranks == common


@pytest.mark.process
def test_the_whole_vocabulary_is_loaded_when_a_text_needs_it() -> None:
    program = (
        "from tersely.text import tokens\n"
        "found = [tokens.count_tokens('hello … ×3 wörld'), len(tokens._encodings)]\n"
        "found += [tokens.count_tokens('お誕生日おめでとう'), len(tokens._encodings), len(tokens._common_encodings)]\n"
        "print(found)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout) == [plain("hello … ×3 wörld", "o200k_base"), 0, 8, 1, 0]


@given(st.lists(TEXTS, max_size=6), st.sampled_from([O200K, CL100K, UNKNOWN_MODEL]))
@example(["a)", "/b", " /c", "", "   d", "\t", "e"], O200K)
@settings(max_examples=300, deadline=None)
def test_lines_are_counted_once_and_the_sum_is_exact(lines: list[str], tokenizer: Tokenizer) -> None:
    by_line = LineTokenizer.of(tokenizer)
    for upto in range(len(lines) + 1):
        text = "\n".join(lines[:upto])
        assert by_line.count(text) == tokenizer.count(text)


def test_many_threads_share_one_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_encodings", {})
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: id(tokens._encoding("cl100k_base")), range(8)))
    assert len(found) == 1


# More than N?


@given(TEXTS | st.text("aZ'sStTlL 12345_-.\t\n\r/\"(", max_size=40), st.sampled_from([O200K, CL100K, UNKNOWN_MODEL]))
@settings(deadline=None)
def test_the_lower_bound_never_exceeds_the_count(text: str, tokenizer: Tokenizer) -> None:
    assert tokenizer.at_least(text) <= tokenizer.count(text)


@given(TEXTS, st.integers(-2, 40), st.sampled_from([O200K, CL100K, UNKNOWN_MODEL]))
@settings(deadline=None)
def test_more_than_n_agrees_with_the_count(text: str, limit: int, tokenizer: Tokenizer) -> None:
    assert tokenizer.exceeds(text, limit) == (tokenizer.count(text) > limit)


def test_more_than_n_agrees_with_the_count_around_the_limit() -> None:
    text = "The disk of node 7 filled up. " * 5_000
    exact = O200K.count(text)
    assert [O200K.exceeds(text, exact + difference) for difference in (-1, 0, 1)] == [True, False, False]


class Meter:
    """A tiktoken encoding that adds up how many characters it was given."""

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding
        self.characters = 0
        self.longest = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.characters += len(text)
        self.longest = max(self.longest, len(text))
        found: list[int] = self.encoding.encode_ordinary(text)
        return found

    def decode_bytes(self, ids: list[int]) -> bytes:
        found: bytes = self.encoding.decode_bytes(ids)
        return found


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    made = Meter(tokens._encoding("o200k_base"))
    monkeypatch.setitem(tokens._encodings, "o200k_base", made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["The disk filled up. ", "漢字", "a", " "])
def test_more_than_n_head_and_tail_cost_in_proportion_to_n(unit: str, meter: Meter) -> None:
    text = unit * (9_000_000 // len(unit))
    for limit in (100, 1_000, 8_000):
        allowed = 2 * tokens._LONGEST_PIECE + 3 * LONGEST_TOKEN * limit
        for ask in (O200K.exceeds, O200K.head, O200K.tail):
            meter.characters = 0
            ask(text, limit)
            assert meter.characters < allowed, (ask, limit)


@pytest.mark.parametrize("unit", ["The disk filled up. ", "漢字", "a", " "])
def test_tiktoken_is_never_given_so_much_at_once_that_it_panics_or_stalls(unit: str, meter: Meter) -> None:
    text = unit * (300_000 // len(unit))
    O200K.count(text)
    O200K.encode(text)
    O200K.exceeds(text, 299_999)
    O200K.head(text, 200_000)
    O200K.tail(text, 200_000)
    assert 0 < meter.longest <= 65_536


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", " ", "=", "7", "あ", "ab"])
def test_of_a_long_run_of_the_same_one_piece_is_counted_and_the_count_is_exact(unit: str, meter: Meter) -> None:
    """The slowest text there is to count."""
    text = f"begin {unit * (1_000_000 // len(unit))} end"
    exact = len(O200K.encode(text))
    meter.characters = 0
    assert O200K.count(text) == exact and meter.characters < 300_000
    assert not O200K.exceeds(text, exact) and O200K.exceeds(text, exact - 1)


@pytest.mark.parametrize("name", NAMES)
def test_lines_that_differ_in_digits_only_are_counted_once_and_the_count_is_exact(
    name: EncodingName, meter: Meter
) -> None:
    tokenizer = Tokenizer(name)
    assert all(tokenizer.count(f"{number:0{width}}") == 1 for width in (1, 2, 3) for number in range(10**width))
    text = "\n".join(
        f"{at:06} node-{at % 97}: {at * 7919 % 10_007}ms x{at % 13}y, v{at}.{at % 10}" for at in range(9_999)
    )
    exact = len(tokenizer.encode(text))
    meter.characters = 0
    assert tokenizer.count(text) == exact and meter.characters < len(text) / 10


@pytest.mark.parametrize("name", NAMES)
def test_lines_that_repeat_in_a_long_text_are_counted_once_and_the_count_is_exact(
    name: EncodingName, meter: Meter
) -> None:
    lines = [
        '    "kind": "Pod",',
        "",
        "/usr/lib",
        "  \t",
        "}",
        "\tat a.b.C(D.java:7)\r",
        "{",
        "…",
        "// none",
        " " * 70 + "x",
    ]
    text = "\n".join(
        f"{line}" if at % 50 else f"{line} {at}" for at in range(40_000) for line in [lines[at * at % 97 % 10]]
    )
    exact = len(Tokenizer(name).encode(text))
    meter.characters = 0
    assert Tokenizer(name).count(text) == exact and meter.characters < len(text) / 4


@pytest.mark.parametrize("name", NAMES)
def test_words_that_repeat_in_lines_that_do_not_are_counted_once_and_the_count_is_exact(
    name: EncodingName, meter: Meter
) -> None:
    words = 9 * ["ok", "don't", "x;", "/usr/lib", "…", "'s", "-", "日本", "{", "a:", "é", "b\t", "  c"]
    words += ["d;\n", "e\n\n  ", ";\n/"]
    chance = Random(7)
    lines = [" ".join(chance.choices(words, k=9)) + chance.choice(";z") for _ in range(9_000)]
    text = "\n".join(lines)
    exact = len(Tokenizer(name).encode(text))
    meter.characters = 0
    assert Tokenizer(name).count(text) == exact and meter.characters < len(text) / 4


@given(st.lists(st.sampled_from(NASTY), min_size=1, max_size=60), st.sampled_from((O200K, CL100K)))
def test_words_are_counted_as_in_one_go(pieces: list[str], tokenizer: Tokenizer) -> None:
    text = "".join(pieces)
    assert tokenizer._count_of_words((text + " ") * 4) == len(tokenizer.encode((text + " ") * 4))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", [" " * 40_000, "\n" * 40_000, "a b " * 9_000 + " " * 40_000, ";\n" * 20_000, "a"])
def test_words_of_little_but_white_space_are_counted(text: str, name: EncodingName) -> None:
    tokenizer = Tokenizer(name)
    assert tokenizer._count_of_words(text) == sum(tokenizer._counts(text))


def test_head_and_tail_of_ordinary_text_read_little_more_than_they_return(meter: Meter) -> None:
    text = "The disk of node 7 filled up while the backup was running again. " * 100_000
    for limit in (50, 500, 5_000):
        for ask in (O200K.head, O200K.tail):
            meter.characters = 0
            assert meter.characters <= 3 * len(ask(text, limit)) + 1_000


# Head and tail


@given(TEXTS, st.integers(0, 30), st.sampled_from([O200K, CL100K, UNKNOWN_MODEL]))
@settings(max_examples=300, deadline=None)
def test_head_and_tail_are_parts_of_the_text_within_the_limit(text: str, limit: int, tokenizer: Tokenizer) -> None:
    head, tail = tokenizer.head(text, limit), tokenizer.tail(text, limit)

    assert text.startswith(head)
    assert text.endswith(tail)
    assert tokenizer.count(head) <= limit
    assert tokenizer.count(tail) <= limit
    if not tokenizer.exceeds(text, limit):
        assert head == tail == text


def test_head_and_tail_use_nearly_all_of_the_limit_and_keep_words() -> None:
    text = "unbelievable consequences happened everywhere " * 1_000
    for limit in (20, 100, 1_000):
        for part in (O200K.head(text, limit), O200K.tail(text, limit)):
            assert limit - 5 <= O200K.count(part) <= limit
            assert set(part.split()) == set(text.split())


def test_head_and_tail_of_one_endless_word_use_nearly_all_of_the_limit() -> None:
    text = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(100_000))
    for part in (O200K.head(text, 300), O200K.tail(text, 300)):
        assert 280 <= O200K.count(part) <= 300


# Which tokenizer


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, O200K),
        ("", O200K),
        ("openai/gpt-4o-mini", O200K),
        ("gpt-4o", O200K),
        ("gpt-4.1-nano", O200K),
        ("gpt-5", O200K),
        ("o3-mini", O200K),
        ("openai/gpt-oss-120b:free", O200K),
        ("gpt-4", CL100K),
        ("gpt-4-turbo-2024-04-09", CL100K),
        ("openai/gpt-3.5-turbo", CL100K),
        ("text-embedding-3-small", CL100K),
        ("anthropic/claude-sonnet-5", UNKNOWN_MODEL),
        ("google/gemini-3-flash", UNKNOWN_MODEL),
        ("llama3.1:8b", UNKNOWN_MODEL),
        ("olmo-3", UNKNOWN_MODEL),
    ],
)
def test_the_model_name_chooses_the_encoding_and_unknown_ones_get_a_safety_factor(
    model: str | None, expected: Tokenizer
) -> None:
    assert tokenizer_for(model) == expected


def test_the_safety_factor_rounds_up() -> None:
    assert count_tokens("hello world") == 2
    assert count_tokens("hello world", "some/model") == 3
