"""The engines to compare: our own and others, each as `fn(text, budget, focus) -> str`.

The others are what one would reasonably use instead. If an engine has no budget, its
output is cut to the budget. Each adapter imports its library on first use and says
what is missing if it is not installed.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tersely.text.tokens import O200K

Engine = Callable[[str, int, str], str]


class NotInstalled(SystemExit):
    def __init__(self, package: str, how: str) -> None:
        super().__init__(f"{package} is not installed here, so it cannot be measured. {how}")


# --- Ourselves


def tersely(text: str, budget: int, focus: str) -> str:
    from tersely.condensing.structural import condense_structurally

    return condense_structurally(text, budget, focus).text


# --- Simple things


def head_tail(text: str, budget: int, focus: str) -> str:
    if not O200K.exceeds(text, budget):
        return text
    half = (budget - 8) // 2
    return O200K.head(text, half) + "\n[...]\n" + O200K.tail(text, budget - 8 - half)


_LONGEST_UNIT = 400
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])")


def units(text: str) -> list[str]:
    """Lines; long lines as sentences; long sentences as pieces cut at a comma or a blank."""
    found = []
    for line in text.split("\n"):
        if len(line) <= _LONGEST_UNIT:
            if line.strip():
                found.append(line)
            continue
        for sentence in _SENTENCE_END.split(line):
            rest = sentence
            while len(rest) > _LONGEST_UNIT:
                cut = max(rest.rfind(mark, 0, _LONGEST_UNIT) for mark in ",; ")
                cut = cut if cut >= _LONGEST_UNIT // 3 else _LONGEST_UNIT - 1
                found.append(rest[: cut + 1])
                rest = rest[cut + 1 :]
            if rest.strip():
                found.append(rest)
    return found


def pack(pieces: Sequence[str], order: Sequence[int], budget: int) -> str:
    """Take pieces in the given order while they fit; return them in the order of the text."""
    left, misses, kept = budget, 0, []
    for index in order:
        cost = O200K.count(pieces[index] + "\n")
        if cost <= left:
            kept.append(index)
            left -= cost
            misses = 0
        else:
            misses += 1
            if left < 4 or misses > 200:
                break
    return O200K.head("\n".join(pieces[index] for index in sorted(kept)), budget)


_TOKEN = re.compile(r"[A-Za-z0-9_]+")
_PARTS = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_STOP_WORDS = (
    "a an and any are as at be by can did do does for from give has have how i in is it its me my not of on or please "
    "show "
    "tell that the there this to was we were what when where which who why with you your "
)
_STOP = frozenset(_STOP_WORDS.split())


@lru_cache(maxsize=200_000)
def _terms_of_word(word: str) -> tuple[str, ...]:
    whole = word.lower()
    parts = [part.lower() for part in _PARTS.split(word) if part]
    return tuple(_stem(term) for term in dict.fromkeys([whole, *parts]) if term not in _STOP)


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def terms(text: str) -> list[str]:
    return [term for word in _TOKEN.findall(text) for term in _terms_of_word(word)]


def bm25(pieces: Sequence[str], focus: str, k1: float = 1.2, b: float = 0.75) -> list[float]:
    wanted = set(terms(focus))
    counted = [Counter(terms(piece)) for piece in pieces]
    lengths = [sum(terms_.values()) for terms_ in counted]
    average = sum(lengths) / max(1, len(lengths)) or 1.0
    scores = [0.0] * len(pieces)
    # Sorted: summing in the order of a set would make equal scores differ between runs.
    for term in sorted(wanted):
        holders = [index for index, terms_ in enumerate(counted) if term in terms_]
        weight = math.log(1 + (len(pieces) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            often = counted[index][term]
            scores[index] += weight * often * (k1 + 1) / (often + k1 * (1 - b + b * lengths[index] / average))
    return scores


def bm25_lines(text: str, budget: int, focus: str) -> str:
    pieces = units(text)
    scores = bm25(pieces, focus)
    return pack(pieces, sorted(range(len(pieces)), key=lambda index: (-scores[index], index)), budget)


_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+", re.IGNORECASE)


def bm25_mmr(text: str, budget: int, focus: str, balance: float = 0.6, pool: int = 600) -> str:
    """BM25 over distinct lines (ignoring numbers), then MMR: lines similar to chosen ones are ranked lower."""
    pieces = units(text)
    scores = bm25(pieces, focus)
    top = max([*scores, 1e-9])
    ranked = sorted(range(len(pieces)), key=lambda index: (-scores[index], index))
    rest: dict[int, frozenset[str]] = {}
    seen = set()
    for index in ranked:
        signature = frozenset(_TOKEN.findall(_NUMBER.sub("#", pieces[index].lower())))
        if signature not in seen:
            seen.add(signature)
            rest[index] = signature
            if len(rest) >= pool:
                break
    like = dict.fromkeys(rest, 0.0)
    order: list[int] = []
    left = budget
    while rest and left > 3:
        best = max(rest, key=lambda index: balance * scores[index] / top - (1 - balance) * like[index])
        signature = rest.pop(best)
        cost = O200K.count(pieces[best] + "\n")
        if cost > left:
            if left < 10:
                break
            continue
        left -= cost
        order.append(best)
        for index, other in rest.items():
            shared = len(signature & other)
            like[index] = max(like[index], shared / max(1, len(signature) + len(other) - shared))
    taken = set(order)
    return pack(pieces, order + ([index for index in ranked if index not in taken] if left > 30 else []), budget)


# --- Libraries of the field

_BAD = re.compile(
    r"\b(fatal|panic|critical|crit|emerg|alert|severe)\b"
    r"|\b(error|err|exception|traceback|fail\w*|crash\w*|oom\w*|killed|denied|refused|timeout|timed out|unable|cannot"
    r"|unhealthy|expired|exceeded)\b"
    r"|\b(warn(?:ing)?)\b",
    re.IGNORECASE,
)


def _severity(line: str) -> float:
    found = _BAD.search(line)
    return 0.0 if not found else 3.0 if found[1] else 2.0 if found[2] else 1.0


def drain3(text: str, budget: int, focus: str) -> str:
    """Templates of drain3, one line of each with its count, ranked by severity, focus and rarity."""
    try:
        from drain3 import TemplateMiner
        from drain3.masking import MaskingInstruction
        from drain3.template_miner_config import TemplateMinerConfig
    except ImportError:
        raise NotInstalled("drain3", "`make bench-condense` sets up an environment that has it.") from None
    config = TemplateMinerConfig()
    config.profiling_enabled = False
    config.drain_sim_th, config.drain_depth, config.drain_max_children = 0.5, 4, 100
    config.masking_instructions = [
        MaskingInstruction(r"0x[0-9a-fA-F]+", "HEX"),
        MaskingInstruction(r"\b\d+(\.\d+)*\b", "NUM"),
    ]
    miner = TemplateMiner(config=config)
    pieces = units(text)
    groups: dict[int, list[int]] = {}
    for index, piece in enumerate(pieces):
        groups.setdefault(miner.add_log_message(piece[:600])["cluster_id"], []).append(index)
    firsts = [pieces[members[0]] for members in groups.values()]
    relevance = bm25(firsts, focus)
    top = max([*relevance, 1e-9])
    shown, worth = [], []
    for line, members, relevant in zip(firsts, groups.values(), relevance, strict=True):
        shown.append(f"{line}  [x{len(members)}]" if len(members) > 1 else line)
        worth.append(
            _severity(line) + 2 * relevant / top + 0.8 * (1 - math.log(1 + len(members)) / math.log(2 + len(pieces)))
        )
    return pack(shown, sorted(range(len(shown)), key=lambda index: (-worth[index], index)), budget)


def sumy(text: str, budget: int, focus: str, most: int = 250) -> str:
    """LexRank of sumy over lines; it is quadratic, so long texts are sampled evenly. It ignores the focus."""
    try:
        from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
        from sumy.summarizers.lex_rank import LexRankSummarizer
    except ImportError:
        raise NotInstalled("sumy", "`make bench-condense` sets up an environment that has it.") from None

    class Words:
        def to_words(self, sentence: str) -> tuple[str, ...]:
            return tuple(_TOKEN.findall(sentence.lower()))

    pieces = units(text)
    if len(pieces) > most:
        pieces = [pieces[index * len(pieces) // most] for index in range(most)]
    summarizer: Any = LexRankSummarizer()
    summarizer.stop_words = tuple(_STOP)
    ranked: list[float] = []

    def note(sentences: Sequence[Any], count: int, rating: Any, *more: Any, **named: Any) -> tuple[Any, ...]:
        ranked.extend(rating(sentence) if callable(rating) else rating[sentence] for sentence in sentences)
        return tuple(sentences)

    summarizer._get_best_sentences = note
    summarizer(ObjectDocumentModel([Paragraph([Sentence(piece, Words()) for piece in pieces])]), 1)
    return pack(pieces, sorted(range(len(ranked)), key=lambda index: (-ranked[index], index)), budget)


def headroom(text: str, budget: int, focus: str) -> str:
    """headroom-ai with its own router for tool results; cut to the budget, because it has none."""
    try:
        from headroom import compress
    except ImportError:
        raise NotInstalled(
            "headroom-ai",
            "It has many dependencies and is not in our environments: `pip install headroom-ai==0.42.0` in its own.",
        ) from None
    messages = [
        {"role": "user", "content": focus or "What is in this?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "tool", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": text},
    ]
    answer = compress(
        messages,
        model="gpt-4o",
        model_limit=2_000_000,
        protect_recent=0,
        protect_analysis_context=False,
        kompress_model="disabled",
        min_tokens_to_compress=50,
    ).messages[-1]["content"]
    shown = answer if isinstance(answer, str) else "".join(part.get("text", "") for part in answer)
    return O200K.head(shown, budget)


def headroom_text(text: str, budget: int, focus: str) -> str:
    """headroom-ai's text crusher, asked for the share of the text that would fit, then for smaller shares."""
    try:
        from headroom.transforms.text_crusher import TextCrusher, TextCrusherConfig
    except ImportError:
        raise NotInstalled(
            "headroom-ai",
            "It has many dependencies and is not in our environments: `pip install headroom-ai==0.42.0` in its own.",
        ) from None
    share = budget / max(1, O200K.count(text))
    if share >= 1:
        return text
    shown: str = text
    for step in (1.0, 0.8, 0.6, 0.4):
        shown = TextCrusher(TextCrusherConfig()).compress(text, focus, max(1e-4, share * step)).compressed
        if not O200K.exceeds(shown, budget):
            return shown
    return O200K.head(shown, budget)


ENGINES: dict[str, Engine] = {
    "tersely": tersely,
    "head+tail": head_tail,
    "bm25+mmr": bm25_mmr,
    "bm25": bm25_lines,
    "drain3": drain3,
    "sumy": sumy,
    "headroom": headroom,
    "headroom text": headroom_text,
}


def named(names: str) -> dict[str, Engine]:
    """Engines by name, separated by commas."""
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    for name in chosen:
        if name not in ENGINES:
            raise SystemExit(f"No engine {name!r}; there are {', '.join(ENGINES)}.")
    return {name: ENGINES[name] for name in chosen}
