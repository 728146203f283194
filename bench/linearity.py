"""Growth of CPU time with the size of the text, by kind: the exponent e in time ≈ c · size^e.

    python -m bench.linearity                     every kind that has a reader, and hostile texts, up to 2 MB
    python -m bench.linearity --only diff,log     some of them
    python -m bench.linearity --smoke             tiny texts; the figures mean nothing

1.0 is linear. Kinds above 1.15 are marked, and the program fails. Each time is the least of several runs, because a
busy machine only adds to it; an exponent under 1 means that samples and limits save more in longer texts.
"""

import sys
import time
from collections.abc import Sequence
from math import log

from bench.arguments import parser
from bench.kinds import HOSTILE, KINDS, text_of
from tersely.condensing.structural import condense_structurally

SIZES = (250_000, 500_000, 1_000_000, 2_000_000)
STEEPEST = 1.15
BUDGET = 1_000
QUESTION = "What failed, and why?"


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of the line through the logarithms, by least squares."""
    across, up = [log(size) for size in sizes], [log(max(each, 1e-9)) for each in seconds]
    middle, height = sum(across) / len(across), sum(up) / len(up)
    slope = sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True))
    return slope / sum((x - middle) ** 2 for x in across)


def seconds_of(text: str, runs: int) -> float:
    """Return the least CPU time of several runs, without that of counting the tokens of the source."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        condense_structurally(text, BUDGET, QUESTION, tokens_before=0)
        best = min(best, time.process_time() - began)
    return best


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", help=f"separated by commas: {', '.join(KINDS | HOSTILE)}")
    options.add_argument("--runs", type=int, default=3, help="runs for each size")
    asked = options.parse_args()
    names = [name.strip() for name in asked.only.split(",") if name.strip()] or list(KINDS | HOSTILE)
    for name in names:
        if name not in KINDS | HOSTILE:
            raise SystemExit(f"No kind {name!r}; there are {', '.join(KINDS | HOSTILE)}.")
    sizes = (4_000, 8_000) if asked.smoke else SIZES
    condense_structurally("warm up: " + "a b c\n" * 2_000, 200, "b")
    print(
        f"{'CPU time, 1000 tokens':<26}"
        + "".join(f"{f'{size / 1e6:g} MB':>12}" for size in sizes)
        + f"{'exponent':>10}"
    )
    steep = []
    for name in names:
        texts = [text_of(name, size) for size in sizes]
        seconds = [seconds_of(text, 1 if asked.smoke else asked.runs) for text in texts]
        grew = exponent([len(text) for text in texts], seconds)
        mark = f"  over {STEEPEST}" if grew > STEEPEST else ""
        if mark:
            steep.append(name)
        kind = name if name in KINDS else f"hostile: {name}"
        print(
            f"   {kind:<31}" + "".join(f"{each * 1e3:>9.0f} ms" for each in seconds) + f"{grew:>10.2f}{mark}",
            flush=True,
        )
    if steep and not asked.smoke:
        print(f"Steeper than {STEEPEST}: {', '.join(steep)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
