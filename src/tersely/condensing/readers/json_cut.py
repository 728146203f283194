"""JSON whose beginning is missing: the middle or the end of a document."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.trees.reading import read_tree
from tersely.condensing.units import Reading
from tersely.shapes.json_tree import parse_cut

_LINE = re.compile(r'\s*(?:"[^"]{1,120}"\s*:\s*(?:"|[\d{\[-]|true|false|null)|[}\]]+,?\s*$|[{\[]\s*$|\}, ?\{$)')
_FIELD = re.compile(r'"(?<=[{,\s]")[^"\n]{1,60}"\s*:\s*["\d{\[tfn-]')


def _is_cut(sample: Sample) -> bool:
    if sample.many >= 4 and sample.share(_LINE) >= 0.85:
        return True
    return len(_FIELD.findall(sample.text[:20_000])) * 45 > min(len(sample.text), 20_000)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree = parse_cut(text)
    return read_tree(tree, focus, budget, "json") if len(tree) > 3 else None


READER = Reader("json_cut", Signs((0.96, _is_cut)), read, holds_json=True, nested=True)
