"""`is_plain` never says that a text is plain which cleaning, demoting or masking would change."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

from bench.hooks import SMALL
from bench.secrets.cases import plain_texts, positives
from tersely.masking import normalise, patterns, search
from tersely.masking.clean import clean
from tersely.masking.imitations import demote
from tersely.masking.mask import Masker
from tersely.masking.quick import is_plain
from tersely.masking.token_patterns import token_patterns

MASKER = Masker()
NOTES = (
    "[Shortened from 9 tokens.]", "[ shortened ]", "[\n cut: here]", "[Cut here: x]", "[… 12 lines]", "[... 3 x]",
    "[A picture of type x", "see r_0h3kq9x7v2m5c8dz now", "[Earlier: x]", "[structured content of the same result]",
)  # fmt: skip


def unsound(texts: Iterator[str]) -> tuple[list[str], int]:
    """Texts that are called plain although the rules change them, and how many are called plain."""
    wrong, plain = [], 0
    for text in texts:
        # A whole document is hardly ever plain, one line of it may be.
        for part in {text, *text.split("\n")}:
            if is_plain(part):
                plain += 1
                if MASKER.mask(demote(clean(part).text)) != part:
                    wrong.append(part)
    return wrong, plain


def test_no_known_secret_is_called_plain() -> None:
    known = token_patterns()
    examples = [token.example for token in known.tokens] + [one for form in known.forms for one in form.example]
    wrong, _ = unsound(iter([case.text for case in positives()] + examples))
    assert wrong == []
    in_sentences = (f"The value is {example} here." for example in examples)
    assert unsound(in_sentences)[0] == []


def test_every_name_that_the_rules_know_is_looked_at() -> None:
    programs = {
        name
        for source in search._COMMAND_SOURCES
        for found in re.findall(r"\(\?:\\b\|\\\\\[nrt\]\)\(\?:([\w|?\\.+\-]*)\)\\b", source)
        for name in found.replace("\\w+", "get").replace("\\.", ".").replace("?", "").split("|")
    }
    assert len(programs) > 90
    foreign = {name for names in normalise._FOREIGN.values() for name in names}
    for name in (*patterns.ANCHORS, *patterns.SHORT_ANCHORS, *programs, *foreign):
        assert not is_plain(f"a line with {name.replace('?', '')} x"), name


def test_hidden_characters_and_imitated_notes_are_not_plain() -> None:
    for text in (*NOTES, "a\x1b[31mb", "a\u200bb", "a\u202eb", "a\rb", "a\0b", "caf\ufeffe"):
        assert not is_plain(text), text


def test_ordinary_output_is_plain() -> None:
    assert [name for name, text in SMALL.items() if not is_plain(text)] == ["env with a secret"]
    wrong, plain = unsound(case.text for case in plain_texts())
    assert wrong == [] and plain > 50


def test_the_shared_corpora_agree(shared: Path) -> None:
    def texts() -> Iterator[str]:
        for name in ("corpus_pos_dev", "corpus_neg_dev"):
            with gzip.open(shared / "safety" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
                for line in lines:
                    yield from (value for value in json.loads(line).values() if isinstance(value, str))
        for line in (shared / "safety" / "injection_dev.jsonl").read_text("utf-8").split("\n"):
            if line:
                yield str(json.loads(line)["payload"])

    wrong, plain = unsound(texts())
    assert wrong == [] and plain > 10_000
