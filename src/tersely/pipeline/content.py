"""Content as an entry point received it, before cleaning and masking.

Entry points translate their protocols into `Content`; parts that are not text are
attachments.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A part of a result that is not text: an image, a sound, a file, a link."""

    kind: str
    """`image`, `audio`, `resource`, `link`, or the server's own name for the kind."""

    data: str = ""
    """Base64, as it was received."""

    mime_type: str = ""
    name: str = ""

    def content(self) -> bytes:
        """The decoded data; invalid Base64 is returned as it is."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return self.data.encode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Content:
    texts: tuple[str, ...] = ()
    """The parts that are text, in order."""

    structured: Any = None
    """A JSON value in addition to the text or instead of it; None if there is none."""

    is_mirrored: bool = False
    """Whether the structured value only repeats the texts and attachments."""

    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    """Whether the tool reported a failure."""

    @classmethod
    def of_text(cls, text: str) -> "Content":
        return cls(texts=(text,))
