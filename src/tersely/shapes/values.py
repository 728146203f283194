"""Single values: numbers with their units, and the shape of a value."""

import math
import re
from functools import lru_cache

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


@lru_cache(maxsize=16_384)
def number_of(text: str) -> float | None:
    """Parse a number with its unit: `1.5Gi`, `20 ms`, `45%`, `1h3m`, `1,024`; None if it is not a number."""
    if not text or len(text) > 40:
        return None
    if text[0] in "\"'" and text[-1] == text[0]:
        text = text[1:-1]  # Some formats quote every value.
    if text[:1].isalpha():
        return None  # Also "inf" and "nan".
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


_DIGITS = re.compile(r"\d+")
_LETTERS = re.compile(r"[A-Za-z]+")


@lru_cache(maxsize=16_384)
def shape_of(value: str) -> str:
    """Return the shape of a value: `2024-01-02` → `9-9-9`, `web-7f` → `a-9a`."""
    return _LETTERS.sub("a", _DIGITS.sub("9", value[:60]))
