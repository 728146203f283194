"""HTML, read like other pages once its blocks are found."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.readers import pages

_HTML = re.compile(r"<(?:!doctype html|html|head|body|div|p|span|table|a href|script|meta)\b", re.I)


def _is_html(sample: Sample) -> bool:
    opening = sample.opening
    return opening.startswith("<") and bool(_HTML.match(opening) or len(_HTML.findall(sample.text[:20_000])) >= 5)


READER = Reader("html", Signs((1.0, _is_html)), pages.read, splits_at="nothing", refilled=False)
