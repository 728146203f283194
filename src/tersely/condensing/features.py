"""Features of units: what is known about a unit before anything is weighed.

    features = features_of(texts, shapes, focus)
    features.standing = …                      if the reader knows columns
    scores = features.scores(GENERIC, focus)

Texts are lines, rows, records or paragraphs, in source order; shapes are the texts with their values masked. A
reader that knows more (columns, levels, owners) replaces a feature or adds to it. `weights` says what each is worth.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tersely.condensing.focus import Focus, Found, scan
from tersely.condensing.weights import Weights

_OUTCOME = re.compile(
    r"(?=[\dAEFOPBRSTefmnpt(])(?:"
    r"\b\d+ (?:tests? )?(?:passed|failed|failing|passing|errors?|failures?|skipped|warnings?|problems?)\b"
    r"|\b(?:failed|failures?|errors?|passed|total)\s?[=:]\s?\d+"
    r"|^(?:FAIL(?:ED|URE)?|OK|PASS(?:ED)?|ERROR|BUILD (?:FAILED|SUCCESS\w*)|Ran \d+ tests?|Found \d+ \w+|Plan: \d+"
    r"|Apply complete|SUMMARY:|Tests?:|Test Suites?:|make(?:\[\d+\])?: \*\*\*|npm ERR!|Total:?)"
    r"|\bexit(?:ed)?(?: with)?(?: status| code)?:? [1-9]\d*\b|^\(\d+ rows?\)|\b\d+ files? changed\b)"
)
MOST_OUTCOMES = 12
LAST_LINES = 40
"""Outcomes are among the last lines or contain a word of severity; more than so many are ordinary lines."""
LONGEST_OUTCOME = 240

EDGE = 4
"""Number of texts at the beginning, and at the end, that have a position."""


@dataclass
class Features:
    """One list per feature, with one number per text; empty if the reader does not know the feature, or no text has it.

    `Weights` says what each of them is.
    """

    found: Found
    nearness: Sequence[float] = ()
    rarity: Sequence[float] = ()
    window: Sequence[float] = ()
    position: Sequence[float] = ()
    pinned: Sequence[float] = ()
    frames: Sequence[float] = ()
    standing: Sequence[float] = ()
    title: Sequence[float] = ()
    body: Sequence[float] = ()
    roles: Sequence[str] = ()

    def rows(self, focus: Focus) -> list[dict[str, float]]:
        """Return for each text its features by the names in `Weights`; for fitting and explaining."""
        severe, rare, edge, pin, framed = _asked(focus)
        return [
            {
                "relevance": self.found.relevance[at],
                "nearness": self.nearness[at],
                severe: self.found.severity[at],
                rare: self.rarity[at],
                "standing": self.standing[at] if self.standing else 0.0,
                "window": self.window[at] if self.window else 0.0,
                edge: self.position[at],
                pin: self.pinned[at] if self.pinned else 0.0,
                framed: self.frames[at] if self.frames else 0.0,
            }
            for at in range(len(self.nearness))
        ]

    def scores(self, weights: Weights, focus: Focus, *, unusual: bool | None = None) -> list[float]:
        """Return the score of each text; `unusual` says if rare texts are wanted, where the reader knows better."""
        severe, rare, edge, pin, framed = (getattr(weights, name) for name in _asked(focus, unusual))
        scores = [weights.relevance * relevance for relevance in self.found.relevance]
        for weight, values in (
            (weights.nearness, self.nearness),
            (severe, self.found.severity),
            (rare, self.rarity),
            (weights.standing, self.standing),
            (weights.window, self.window),
            (edge, self.position),
            (pin, self.pinned),
            (framed, self.frames),
            (weights.title, self.title),
            (weights.body, self.body),
        ):
            if weight and values:
                scores = [score + weight * value for score, value in zip(scores, values, strict=True)]
        if self.roles:
            scores = [score + weights.roles[role] for score, role in zip(scores, self.roles, strict=True)]
        return scores


def near_features(texts: Sequence[str], focus: Focus) -> Features:
    """Return what is known about any lines: which terms and words of severity they contain, or those beside them."""
    found = scan(texts, focus)
    return Features(found, nearness(found))


def _asked(focus: Focus, unusual: bool | None = None) -> tuple[str, str, str, str, str]:
    """Return the names of the weights of severity, rarity, position, outcomes and frames for this question."""
    return (
        "severity_asked" if focus.trouble else "severity",
        "rarity_asked" if (focus.unusual or not focus if unusual is None else unusual) else "rarity",
        "position" if focus else "position_asked",
        "pinned_asked" if focus.trouble else "pinned",
        "frames_asked" if focus.trouble else "frames",
    )


def features_of(texts: Sequence[str], shapes: Sequence[Hashable], focus: Focus) -> Features:
    """Return what is known about lines; without their shapes, all but how rare each is."""
    found = scan(texts, focus)
    return Features(
        found,
        nearness(found),
        rarity(shapes) if shapes else (),
        [1.0 if focus.within(text) else 0.0 for text in texts] if focus.since or focus.until else [],
        position(len(texts)),
        pinned(texts, found.severity),
    )


def pinned(texts: Sequence[str], severity: Sequence[float]) -> list[float]:
    """Return 1 for each text that states an outcome; nothing if there is none, or so many that they are ordinary."""
    late = len(texts) - LAST_LINES
    found = [
        at
        for at, text in enumerate(texts)
        if (severity[at] or at >= late or text.startswith("SUMMARY:"))
        and len(text) <= LONGEST_OUTCOME
        and _OUTCOME.search(text)
    ]
    if not found or len(found) > max(MOST_OUTCOMES, 0.01 * len(texts)):
        return []
    marked = [0.0] * len(texts)
    for at in found:
        marked[at] = 1.0
    return marked


def rarity(shapes: Sequence[Hashable]) -> list[float]:
    """Return how rare each shape is: 1 for one that occurs once, 0 for the only one."""
    times = Counter(shapes)
    spread = math.log(1 + len(shapes))
    worth = {shape: 1 - math.log(many) / spread for shape, many in times.items()}
    return [worth[shape] for shape in shapes]


def position(count: int) -> list[float]:
    """Return 1 for the first and the last text, less for those beside them, 0 from `EDGE` on."""
    found = [0.0] * count
    for step in range(min(EDGE, count)):
        found[step] = max(found[step], 1 - step / EDGE)
        found[count - 1 - step] = max(found[count - 1 - step], 1 - step / EDGE)
    return found


def nearness(found: Found) -> list[float]:
    """Return what each text gains from relevant texts around it.

    The gain is largest if they contain the terms that the text lacks: the owner of a value, or the value of an owner.
    """
    relevance = found.relevance
    count = len(relevance)
    near = [0.0] * count
    source = [-1] * count
    for order, fade, share in ((range(count), 0.82, 1.0), (range(count - 1, -1, -1), 0.7, 0.7)):
        flow, origin = 0.0, -1
        for i in order:
            if flow * share > near[i]:
                near[i], source[i] = flow * share, origin
            flow *= fade
            if relevance[i] >= flow:
                flow, origin = relevance[i], i
            elif flow < 0.02:
                flow = 0.0
    for i in range(count):
        if near[i] > 0:
            near[i] *= 0.3 + 1.6 * found.adds(source[i], i) if relevance[i] > 0 else 0.5
    return near
