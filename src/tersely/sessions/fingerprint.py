"""The fingerprint of an alert: the same for alike alerts, so that earlier sessions and message threads are found.

Computed from masked text, without what changes from one alert to the next: marks of
masked values, numbers, ids and times.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

_VOLATILE = re.compile(
    r"\[MASKED[^\]]*\]"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\b(?=[a-z0-9]*\d)[a-z0-9]{5,10}-(?=[a-z]*\d?)[a-z0-9]{5}\b"  # of pods: 6d4cf56db6-x2x8z
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"
    r"|\d+(?:[.,:]\d+)*",
    re.IGNORECASE,
)


def fingerprint_of(*, given: str, group: str, data: str | Mapping[str, Any], alert_type: str, title: str) -> str:
    """A digest of what the sender named, else of the alert group, else of the alert's type and title.

    Args:
        given: As the sender named it; empty if they did not.
        group: Name of the alert group; empty for single alerts.
        title: Masked.
    """
    own = data.get("fingerprint") if isinstance(data, Mapping) else None
    if given or (isinstance(own, str) and own.strip()):
        parts: tuple[str, ...] = ("given", given or str(own).strip())
    elif group:
        parts = ("group", group)
    else:
        parts = ("title", alert_type, " ".join(_VOLATILE.sub("#", title).lower().split()))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
