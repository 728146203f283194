"""What is normal in a column of values, and which of them are not.

A column is all values found under one path: a field of the records of a list, a
column of a table, an attribute of an element. `oddness` says how much each value
differs from its siblings; `numbers` and `extremes` order what can be ordered.
Shared by the readers of trees (JSON, YAML, XML, outlines) and of tables.

Knows nothing of questions, units or formats.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

_NUMBER = re.compile(
    r"\s*[$€£]?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*"
    r"(%|[kKMGTPE]i?[bB]?(?:ytes|it)?(?:/s|ps)?|[munµp]s|[smhd]|sec(?:onds?|s)?|min(?:utes?|s)?|hours?|days?|ms|m|bytes?|[bB]|Hz|MHz|GHz|kHz|[A-Za-z/°]{1,10})?\s*$"
)
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?$")
_THOUSANDS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SCALE = {
    **{letter + "i" + byte: 1024.0**power for letter, power in _THOUSANDS.items() for byte in ("", "B", "b")},
    **{letter + byte: 1000.0**power for letter, power in _THOUSANDS.items() for byte in ("", "B", "b", "Hz")},
    **{"ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0},
    **{"h": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0},
}
_EMPTY = frozenset(("", "-", "null", "None", "<none>", "N/A", "n/a"))
_DATE = re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[A-Za-z]+")


def number_of(text: str) -> float | None:
    """The number a value stands for, with its unit: `1.5Gi`, `20 ms`, `45%`, `1h3m`, `1,024`; None when it is not one."""
    if not text or len(text) > 40:
        return None
    try:
        value = float(text)
    except ValueError:
        pass
    else:
        return value if math.isfinite(value) else None
    if not ("0" <= text.strip("$€£-+ .")[:1] <= "9"):
        return None
    match = _NUMBER.match(text)
    if match and match.group(1):
        try:
            value = float(match.group(1).replace(",", ""))
        except ValueError:
            return None
        unit = match.group(2) or ""
        return value * _SCALE.get(unit, 1e-3 if unit == "m" else 1.0)
    duration = _DURATION.match(text)
    if duration and duration.group():
        days, hours, minutes, seconds = (float(part) if part else 0.0 for part in duration.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    return None


def numbers_of(values: Sequence[str]) -> list[float | None] | None:
    """The values as numbers when most of them are; dates count by their order. None when the column is of words."""
    sample = values[:: max(1, len(values) // 50)][:60]
    filled = [value for value in sample if value and value not in _EMPTY]
    if not filled:
        return None
    numeric = sum(1 for value in filled if number_of(value) is not None)
    if numeric >= 0.7 * len(filled):
        return [number_of(value) for value in values]
    dated = sum(1 for value in filled if _DATE.match(value))
    if dated >= 0.8 * len(filled):
        return [_date_number(value) for value in values]
    return None


def _date_number(value: str) -> float | None:
    match = _DATE.match(value)
    if not match:
        return None
    digits = "".join(_DIGITS.findall(value[:26]))[:17]
    return float(digits.ljust(17, "0"))


def shape_of(value: str) -> str:
    """`2024-01-02` → `9-9-9`, `web-7f` → `a-9a`: what a value looks like rather than what it says."""
    return _LETTERS.sub("a", _DIGITS.sub("9", value[:60]))


def oddness(values: Sequence[str], numbers: list[float | None] | None = None) -> dict[int, float]:
    """Position → how odd, 0..1, for values that stand out from their siblings; empty for columns without a norm.

    Surprise (how rare is this value) times predictability (how much do the others agree), first for the values
    themselves, then for their shapes, then for numbers far outside the range of the rest.
    """
    count = len(values)
    if count < 5:
        return {}
    found: dict[int, float] = {}
    counts = Counter(values)
    if 1 < len(counts) <= 0.5 * count:
        found.update(_surprises(values, counts))
    elif len(counts) > 1 and numbers is None:
        shapes = [shape_of(value) for value in values]
        shape_counts = Counter(shapes)
        if 1 < len(shape_counts) <= 0.2 * count + 1:
            for position, odd in _surprises(shapes, shape_counts).items():
                found[position] = 0.6 * odd
    if numbers is not None:
        for position, odd in _far_out(numbers).items():
            found[position] = max(found.get(position, 0.0), odd)
        strangers = [position for position, number in enumerate(numbers) if number is None and values[position] not in _EMPTY]
        if 0 < len(strangers) <= max(1, 0.05 * count):
            for position in strangers:
                found[position] = max(found.get(position, 0.0), 0.9)
    return found


def _surprises(values: Sequence[str], counts: Counter[str]) -> dict[int, float]:
    total = len(values)
    scale = math.log(total)
    entropy = -sum(n / total * math.log(n / total) for n in counts.values())
    predictable = (1 - entropy / scale) ** 2
    if predictable < 0.05:
        return {}
    odd = {value: predictable * math.log(total / n) / scale for value, n in counts.items() if n <= 0.1 * total + 1 and n < 0.5 * total}
    # When half of the distinct values are singletons it is a list of names with a few repeats, not a state.
    singles = sum(1 for n in counts.values() if n == 1)
    damp = 1.0 if singles <= 3 else 3.0 / singles
    if not odd:
        return {}
    return {position: odd[value] * damp for position, value in enumerate(values) if value in odd and odd[value] * damp > 0.04}


def _far_out(numbers: list[float | None]) -> dict[int, float]:
    known = sorted(number for number in numbers if number is not None)
    if len(known) < 8:
        return {}
    low, middle, high = (known[len(known) * part // 4] for part in (1, 2, 3))
    spread = high - low
    if spread <= 0:
        tenth = known[len(known) * 9 // 10] - known[len(known) // 10]
        spread = tenth or abs(middle) * 0.05 or 1e-9
    limit = 5 * spread
    far = [
        (abs(number - middle), position) for position, number in enumerate(numbers) if number is not None and abs(number - middle) > limit
    ]
    # A long tail is a habit, not an oddity.
    if not far or len(far) > max(2, 0.02 * len(known)):
        return {}
    return {position: min(1.0, 0.45 + 0.15 * math.log(distance / limit + 1)) for distance, position in far}


def extremes(numbers: list[float | None], direction: int, most: int = 3) -> list[int]:
    """Positions of the highest (direction 1) or lowest (-1) numbers, best first."""
    known = [(number * direction, -position) for position, number in enumerate(numbers) if number is not None]
    known.sort(reverse=True)
    return [-position for _, position in known[:most]]
