"""HTML, read like other pages once its blocks are found."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.readers import pages

_HTML = re.compile(r"<(?:!doctype html|html|head|body|div|p|span|table|a href|script|meta)\b", re.I)

_QUOTED = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)", re.S)
"""Text inside XML; its tags are no elements of the document."""


def _is_html(sample: Sample) -> bool:
    opening = sample.opening
    if not opening.startswith("<"):
        return False
    return bool(_HTML.match(opening) or len(_HTML.findall(_QUOTED.sub("", sample.text[:20_000]))) >= 5)


READER = Reader("html", Signs((1.0, _is_html)), pages.read, splits_at="nothing")
