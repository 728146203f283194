"""Masks the secrets in a text and leaves everything else unchanged.

Every text for a model, a store, a cache or a log is masked here. A secret becomes
`[MASKED:password:1a2b3c4d5e6f]`: its kind, and digits that are equal for equal secrets
in one scope and meaningless outside of it. Only values are replaced, so JSON and YAML
still parse.

Masking fails closed: a text that cannot be masked, or not in time, raises
`MaskingFailed` and must not be used. Finding secrets is `masking.search`. This module
knows no servers and no settings.
"""

import hmac
import json
import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import re2

from tersely.errors import ConfigError, InputError, MaskingFailed
from tersely.masking.clean import deceptions
from tersely.masking.masked import Masked
from tersely.masking.patterns import Pattern, compiled, forget_values
from tersely.masking.search import GROUPS, Finder, find_secrets
from tersely.masking.spans import INERT, MaskingDeadline, SecretSpan, View
from tersely.masking.structures import scalar_to_quote
from tersely.text.decoding import decoded

DEFAULT_GROUPS: tuple[str, ...] = (*GROUPS, "encoded")
"""All groups. A server's policy may select fewer."""

MARK = "[masked"
"""How every mark begins, in lower case: ours, and foreign ones after masking."""

_MARK = compiled(
    r"\[[ \t]*masked[ \t]*(elsewhere)?:[ \t]*[\w.\- ]{0,40}:[ \t]*[0-9a-f]{4,64}[ \t]*\]", ignore_case=True
)
_IDENTIFYING, _VERIFYING = 4, 8
"""Hexadecimal digits of a mark: the first are too few to confirm a guessed secret, the others too many to forge."""

_OURS = compiled(rf"\[MASKED:[a-z0-9_]{{1,40}}:([0-9a-f]{{{_IDENTIFYING}}})([0-9a-f]{{{_VERIFYING}}})\]")
_NOT_OURS = b"[masked elsewhere:"

_SECONDS, _SECONDS_PER_MEGABYTE = 5.0, 1.0
_SMALL = 4_096
"""Characters that are searched in about a millisecond."""

"""Time limit: many times what the slowest known text takes."""

_SHORT = 16_384
"""Bytes up to which a text with secrets is always searched again; longer ones if a mark stands next to other signs."""

_ROUNDS = 4
"""Most passes over a text; the second one nearly always finds nothing."""


class Masker:
    """Masks for one scope: the session, the principal or the user whose key it holds.

    Args:
        groups: Names from `DEFAULT_GROUPS`.
        custom: Patterns of the operator, by name, in re2 syntax. The group named `secret` is masked, else the first
            group, else the whole match.
        key: Determines the digits of the marks. By default a random key for this masker.

    Raises:
        ConfigError: A group is unknown, or a custom pattern does not compile.
    """

    def __init__(
        self,
        *,
        groups: Collection[str] = DEFAULT_GROUPS,
        custom: Mapping[str, str] | None = None,
        key: bytes | None = None,
    ) -> None:
        unknown = sorted(set(groups) - set(DEFAULT_GROUPS))
        if unknown:
            raise ConfigError(f"Masking group {unknown[0]!r} does not exist. There are: {', '.join(DEFAULT_GROUPS)}.")
        self._key = key or os.urandom(32)
        self._pickled = tuple(groups), tuple((custom or {}).items()), self._key
        self._decode = "encoded" in groups
        self._finders: list[Finder] = [finder for name in GROUPS if name in groups for finder in GROUPS[name]]
        self._finders += [_custom_finder(name, pattern) for name, pattern in (custom or {}).items()]

    def __reduce__(self) -> tuple[Any, ...]:
        # For worker processes, which build it once. The key is sent to them and nowhere else.
        return _masker_of, self._pickled

    def mask(self, text: str) -> Masked:
        """The text with marks in place of secrets. Idempotent.

        Raises:
            MaskingFailed: For any failure. The text must not be used.
        """
        try:
            masked = self._masked(text)
            return text if masked is text and isinstance(text, Masked) else Masked(masked)
        except MaskingFailed:
            raise
        except Exception as problem:  # noqa: BLE001
            # Broad on purpose: after any error the text is not masked, and the error must not quote it.
            raise MaskingFailed(f"A text could not be masked ({type(problem).__name__}) and was dropped.") from None

    def mask_json(self, value: Any) -> Any:
        """A parsed JSON value with its secrets masked, for arguments and structured content.

        Raises:
            MaskingFailed: Also for a value that is not JSON.
        """
        try:
            strings_masked = self._mask_strings(value)
            return json.loads(self._masked(json.dumps(strings_masked, ensure_ascii=False)))
        except MaskingFailed:
            raise
        except Exception as problem:  # noqa: BLE001
            # See `mask`.
            raise MaskingFailed(f"A value could not be masked ({type(problem).__name__}) and was dropped.") from None

    def _mask_strings(self, value: Any) -> Any:
        """Mask strings that are documents themselves (lines, quotes, names with values), before the whole."""
        if isinstance(value, str):
            return self._masked(value) if any(sign in value for sign in ("\n", '"', ": ", "=")) else value
        if isinstance(value, dict):
            return {name: self._mask_strings(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._mask_strings(inner) for inner in value]
        return value

    def has_mark(self, text: str) -> bool:
        """Whether the text is a mark that this scope wrote."""
        return self._is_ours(text.encode("utf-8", "surrogatepass"))

    def _masked(self, text: str) -> str:
        """Mask repeatedly until nothing is found: a mark can change how the text next to it is read."""
        seconds = _SECONDS + _SECONDS_PER_MEGABYTE * len(text) / 1e6
        clock = MaskingDeadline(seconds, is_small=len(text) <= _SMALL)
        try:
            for _ in range(_ROUNDS):
                text, is_done = self._masked_once(text, clock)
                if is_done:
                    break
        finally:
            forget_values()
        return text

    def _masked_once(self, text: str, clock: MaskingDeadline) -> tuple[str, bool]:
        """The masked text, and whether another pass is unnecessary."""
        raw = text.encode("utf-8", "surrogatepass")
        searched, forged = self._without_marks(raw)
        view = _visible(text, searched)
        found = find_secrets(view.text if view else searched, self._finders, decode=self._decode, clock=clock)
        if view:
            found = [view.source(span) for span in found]
        spans = _merged(found, searched)
        if not spans and not forged:
            return text, True
        edits = list(self._edits(raw, spans, forged))
        is_done = len(raw) > _SHORT and len(edits) == len(spans) and all(_is_isolated(raw, span) for span in spans)
        return _edited(raw, edits).decode("utf-8", "surrogatepass"), is_done

    def _without_marks(self, raw: bytes) -> tuple[bytes, list[tuple[int, int]]]:
        """The text with its marks blanked for the search, and the spans of forged marks."""
        forged: list[tuple[int, int]] = []
        pieces: list[bytes] = []
        at = 0
        for (start, end), elsewhere in _MARK.every(raw):
            pieces += (raw[at:start], INERT * (end - start))
            at = end
            if elsewhere[0] < 0 and not self._is_ours(raw[start:end]):
                forged.append((start, end))
        return b"".join((*pieces, raw[at:])) if at else raw, forged

    def _is_ours(self, mark: bytes) -> bool:
        places = _OURS.match(mark)
        if places is None or places[0][1] < len(mark):
            return False
        digits, check = (mark[start:end] for start, end in places[1:])
        return hmac.compare_digest(self._check(digits), check)

    def _edits(
        self, raw: bytes, spans: list[SecretSpan], forged: list[tuple[int, int]]
    ) -> Iterator[tuple[int, int, bytes]]:
        for start, _ in forged:
            if not _is_inside(spans, start + 1):
                yield start, raw.index(b":", start) + 1, _NOT_OURS
        quoted_to = 0
        marks: dict[tuple[str, bytes], bytes] = {}
        for span in spans:
            secret = span.kind, raw[span.start : span.end]
            mark = marks[secret] if secret in marks else marks.setdefault(secret, self._mark(*secret))
            yield span.start, span.end, span.quote + mark + span.quote
            if span.quote or span.start < quoted_to or (scalar := scalar_to_quote(raw, span.start, span.end)) is None:
                continue
            if not _is_inside(spans, scalar[0]) and not _is_inside(spans, scalar[1]):
                yield from ((edge, edge, b"'") for edge in scalar)
                yield from (
                    (at, at, b"'") for at in range(*scalar) if raw[at] == 0x27 and not _is_inside(spans, at + 1)
                )
                quoted_to = scalar[1]

    def _mark(self, kind: str, value: bytes) -> bytes:
        digits = hmac.digest(self._key, b"value:" + value, "sha256").hex()[:_IDENTIFYING].encode()
        return b"[MASKED:%s:%s%s]" % (kind.encode(), digits, self._check(digits))

    def _check(self, digits: bytes) -> bytes:
        """The verifying digits are computed from the identifying ones, so they say nothing more about the secret.

        Marks of 8 digits, as older versions wrote, have 12 bits for this: too few. They are read as foreign.
        """
        return hmac.digest(self._key, b"mark:" + digits, "sha256").hex()[:_VERIFYING].encode()


@lru_cache(maxsize=64)
def _masker_of(groups: tuple[str, ...], custom: tuple[tuple[str, str], ...], key: bytes) -> Masker:
    return Masker(groups=groups, custom=dict(custom), key=key)


@cache
def _default_masker() -> Masker:
    return Masker()


def mask(text: str | bytes) -> Masked:
    """Mask with all groups. Marks are comparable within this process.

    Args:
        text: A text, or bytes in UTF-8, UTF-16, UTF-32 or Windows-1252.

    Raises:
        InputError: It is not a text.
        MaskingFailed: It could not be masked.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        text = decoded(bytes(text))
    if not isinstance(text, str):
        raise InputError(
            f"mask() takes a text, and this is {type(text).__name__}. Pass str(value) or json.dumps(value)."
        )
    return _default_masker().mask(text)


def _custom_finder(name: str, pattern: str) -> Finder:
    if not name.replace("_", "").isalnum() or not name.isascii():
        raise ConfigError(
            f"Masking pattern {name!r} needs a name of letters, digits and underscores: the name is part of the mark."
        )
    try:
        expression = Pattern(pattern, encoding=re2.Options.Encoding.UTF8)
        expression.compile()
    except re2.error as problem:
        reason = problem.args[0].decode() if problem.args and isinstance(problem.args[0], bytes) else problem
        raise ConfigError(
            f"Masking pattern {name!r} is not a valid re2 expression: {reason} (in {pattern!r})."
        ) from None
    if expression.is_all_of(b""):
        raise ConfigError(f"Masking pattern {name!r} matches the empty text: {pattern!r}.")
    group = expression.named.get(b"secret", min(expression.groups, 1))

    def find(text: bytes, clock: MaskingDeadline) -> Iterator[SecretSpan]:
        for seen, places in enumerate(expression.every(text)):
            if seen % 256 == 0:
                clock.check()
            start, end = places[group]
            if start < end:
                yield SecretSpan(start, end, name.lower())

    return find


_SUSPECT = compiled(
    r"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f\xad]|[\xcc\xcd\xd2\xd6\xd8\xd9]|\xe1[\x85\x9e\xa0\xaa-\xac\xb7]|\xe2[\x80\x81\x83\xa0]"
    r"|\xe3\x85|\xed[\xa0-\xbf]|\xef[\xb8\xbb\xbe\xbf]|\xf0\x9d\x85|\xf3\xa0"
)
"""The first bytes of what `deceptions` finds: much faster than a look at every character."""


def _visible(text: str, raw: bytes) -> View | None:
    """The text without hidden characters, which could split a name or a secret; None if there are none."""
    if _SUSPECT.search(raw) is None:
        return None
    source: list[bytes] = []
    spelled: list[bytes] = []
    at = size = 0
    for hidden in deceptions(text):
        found = text[hidden.start : hidden.end]
        if '"' in found:
            # A terminal sequence around a piece of JSON: `clean` may remove it, but no secret extends over it.
            continue
        before = text[at : hidden.start]
        width = len(before) if before.isascii() else len(before.encode("utf-8", "surrogatepass"))
        source += (raw[size : size + width], found.encode("utf-8", "surrogatepass"))
        spelled += (source[-2], hidden.replacement.encode())
        size += width + len(source[-1])
        at = hidden.end
    if not source:
        return None
    source.append(raw[size:])
    spelled.append(source[-1])
    return View(source, spelled)


_BORDERS = frozenset(b" \t\r\n\"'=:,;&()[]{}<>@/")


def _is_isolated(raw: bytes, span: SecretSpan) -> bool:
    """Whether a mark in this place does not change how the text next to it is read."""
    return (span.start == 0 or raw[span.start - 1] in _BORDERS) and (span.end == len(raw) or raw[span.end] in _BORDERS)


def _is_inside(spans: list[SecretSpan], place: int) -> bool:
    """Whether a span begins before this place and ends after it."""
    number = bisect_left(spans, place, key=lambda span: span.start) - 1
    return number >= 0 and spans[number].end > place


def _edited(raw: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (raw[at:start], replacement)
        at = end
    return b"".join((*pieces, raw[at:]))


def _merged(spans: list[SecretSpan], searched: bytes) -> list[SecretSpan]:
    """Spans in order, without overlaps, with the kind of the longest. A mark alone is not a secret."""
    merged: list[SecretSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not searched[span.start : span.end].strip(INERT):
            continue
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            if span.end > last.end:
                longer = last if last.end - last.start >= span.end - span.start else span
                merged[-1] = SecretSpan(last.start, span.end, longer.kind, last.quote)
            continue
        merged.append(span)
    return merged
