"""The first step of every entry point: clean, demote, then mask.

Later steps receive no control sequences, hidden characters, imitated notes or
secrets. Content that cannot be masked raises and is not used, not even in an error
message.

`admit`, `admit_text` and `admit_value` are for what others wrote: results, alerts,
errors. `admit_words` and `admit_arguments` are for what a model wrote: it may quote our
notes and name our handles.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tersely.masking.clean import clean, clean_json
from tersely.masking.imitations import demote_json
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, assume_masked, join_masked
from tersely.pipeline.content import Attachment, Content
from tersely.pipeline.foreign_text import admit_foreign


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """Content after cleaning and masking."""

    texts: tuple[Masked, ...]
    structured: Masked | None
    """As JSON."""

    attachments: tuple[Attachment, ...]
    cleaned: int
    """Number of hidden characters that were removed: escapes, zero-width, bidi and tag characters."""

    is_error: bool
    is_mirrored: bool = False
    """Whether the structured content only repeats the texts and attachments."""

    @property
    def text(self) -> Masked:
        """The text; the structured content if there is no text, unless it only repeats pictures and the like."""
        text = join_masked("\n\n", (text for text in self.texts if text))
        return text or (NOTHING if self.is_mirrored else self.structured) or NOTHING

    @property
    def has_more_structure(self) -> bool:
        """Whether the structured content contains anything that the text does not."""
        return self.structured is not None and any(self.texts) and not self.is_mirrored


def admit(content: Content, masker: Masker | None) -> Admitted:
    """Clean and mask everything; only clean without a masker, i.e. if the operator turned masking off.

    Raises:
        MaskingFailed: The content must not be used.
    """
    texts, removed = (
        zip(*(admit_foreign(text, masker) for text in content.texts), strict=True) if content.texts else ((), ())
    )
    structured, hidden = None, 0
    if content.structured is not None:
        # What only repeats the content is masked once; the data of a picture is not masked at all.
        known = dict(zip(content.texts, texts, strict=True)) | {one.data: one.data for one in content.attachments}
        known.pop("", None)
        rest = _without_known(content.structured, known)
        if known and rest == _ONLY_KNOWN:
            # What most tools return: the text again, under the name that the protocol's libraries give it.
            structured = assume_masked(_ONLY_KNOWN_JSON)
        else:
            value, hidden = clean_json(rest)
            structured = _as_json(demote_json(value), masker)
        if known:
            value = _with_known(json.loads(structured), content.structured, known)
            structured = assume_masked(json.dumps(value, ensure_ascii=False))
    return Admitted(
        texts=texts,
        structured=structured,
        attachments=content.attachments,
        cleaned=sum(removed) + hidden,
        is_error=content.is_error,
        is_mirrored=content.is_mirrored,
    )


_ONLY_KNOWN = {"result": ""}
_ONLY_KNOWN_JSON = json.dumps(_ONLY_KNOWN)


def _without_known(value: Any, known: Mapping[str, str]) -> Any:
    """The value with empty strings instead of known ones."""
    if isinstance(value, dict):
        return {key: _without_known(inner, known) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_known(inner, known) for inner in value]
    return "" if isinstance(value, str) and value in known else value


def _with_known(admitted: Any, value: Any, known: Mapping[str, str]) -> Any:
    """The admitted value with the known strings where the value has them."""
    if isinstance(value, dict) and isinstance(admitted, dict) and len(value) == len(admitted):
        pairs = zip(admitted.items(), value.values(), strict=True)
        return {key: _with_known(inner, before, known) for (key, inner), before in pairs}
    if isinstance(value, list) and isinstance(admitted, list):
        return [_with_known(inner, before, known) for inner, before in zip(admitted, value, strict=True)]
    return known[value] if isinstance(value, str) and value in known and admitted == "" else admitted


def admit_text(text: str, masker: Masker | None) -> Masked:
    """One foreign text, cleaned, demoted and masked.

    Raises:
        MaskingFailed: The text must not be used.
    """
    return admit_foreign(text, masker)[0]


def admit_value(value: Any, masker: Masker | None) -> Any:
    """A foreign JSON value, cleaned, demoted and masked.

    Raises:
        MaskingFailed: The value must not be used.
    """
    return admit_arguments(demote_json(clean_json(value)[0]), masker)


def admit_words(text: str, masker: Masker) -> Masked:
    """What a model wrote, cleaned and masked.

    Raises:
        MaskingFailed: The text must not be used.
    """
    return masker.mask(clean(text).text)


def admit_arguments(value: Any, masker: Masker | None) -> Any:
    """Arguments that a model or a client wrote, cleaned and masked.

    Raises:
        MaskingFailed: The value must not be used.
    """
    if value is None or isinstance(value, bool | int | float) or value == {}:
        return value
    cleaned, _ = clean_json(value)
    return masker.mask_json(cleaned) if masker else cleaned


def _as_json(value: Any, masker: Masker | None) -> Masked:
    """A value as JSON text: each string is masked by itself, then again in the context of its key."""

    def masked(value: Any, mask: Callable[[str], str]) -> Any:
        if isinstance(value, dict):
            return {key: masked(inner, mask) for key, inner in value.items()}
        if isinstance(value, list):
            return [masked(inner, mask) for inner in value]
        return mask(value) if isinstance(value, str) else value

    if masker:
        value = masker.mask_json(masked(value, masker.mask))
    # Serializing adds only quotes, brackets and escapes.
    return assume_masked(json.dumps(value, ensure_ascii=False))


def size_of(content: Content) -> int:
    """Approximate number of characters; decides whether cleaning and masking use a thread."""
    return sum(map(len, content.texts)) + (len(str(content.structured)) if content.structured is not None else 0)
