"""JSON whose beginning is missing: the middle or the end of a document."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.readers.json_shape import read_cut

_LINE = re.compile(r'\s*(?:"[^"]{1,120}"\s*:\s*(?:"|[\d{\[-]|true|false|null)|[}\]]+,?\s*$|[{\[]\s*$|\}, ?\{$)')
_FIELD = re.compile(r'(?<=[{,\s])"[^"\n]{1,60}"\s*:\s*["\d{\[tfn-]')


def _is_cut(sample: Sample) -> bool:
    if sample.many >= 4 and sample.share(_LINE) >= 0.85:
        return True
    return len(_FIELD.findall(sample.text[:20_000])) * 45 > min(len(sample.text), 20_000)


READER = Reader("json_cut", Signs((0.96, _is_cut)), read_cut, holds_json=True)
