"""Turns of a few speakers: a name, a colon, spoken sentences."""

import re
from collections import Counter

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.readers.prose import read

_SPEAKER = re.compile(r"[A-Z][\w .'()-]{0,40}: \S")


def _are_turns(sample: Sample) -> bool:
    """Whether the lines are turns of a few speakers: a name, a colon, spoken sentences."""
    lines = sample.lines
    speakers = [match.group().split(":")[0] for line in lines if (match := _SPEAKER.match(line))]
    many = len(lines)
    if len(speakers) < 0.8 * many or many < 8 or not 1 < len(set(speakers)) <= max(4, many // 4) or _repeats(speakers):
        return False
    return sum(1 for line in lines if line.rstrip()[-1:] in ".?!…") > 0.5 * many


def _repeats(speakers: list[str]) -> bool:
    """Whether the "speakers" follow each other in a fixed cycle, like the keys of records."""
    first = speakers[0]
    distances: Counter[int] = Counter()
    last = None
    for index, name in enumerate(speakers):
        if name == first:
            if last is not None:
                distances[index - last] += 1
            last = index
    return (
        bool(distances)
        and distances.most_common(1)[0][0] > 2
        and distances.most_common(1)[0][1] >= 0.8 * sum(distances.values())
        and len(distances) < 3
    )


READER = Reader("dialogue", Signs((0.67, _are_turns)), read, may_repeat=True)
