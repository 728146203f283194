"""What `bench.truth` checks about marks and repetition, and texts in which these were wrong once."""

import json
import re
from collections.abc import Iterator
from itertools import groupby

from tersely.condensing.budget import Condensed
from tersely.condensing.structural import condense_structurally

SMALL_BUDGETS = (16, 60)
"""Too small for the list of what is left out: one mark must say that something is."""

_MARK = re.compile(r"(?:^| )…\d*$|\[… [\d,]+ |\[\d[\d,]* of \d|\[… parts of |\[left out:", re.M)
_NUMBER = re.compile(r"^ *\d+[:-] ?")
_SIGNS = re.compile(r"[\W_]+")
MOST_EQUAL = 2
"""Equal lines in a row that may be shown although others of them are lost."""


def texts_without_marks(text: str, focus: str, section: int) -> Iterator[tuple[str, str]]:
    """A text that lost something has a mark, whatever its budget is."""
    for budget in SMALL_BUDGETS:
        condensed = condense_structurally(text, budget, focus, section=section)
        if condensed.tokens_after > budget:
            yield "over the budget", f"{condensed.tokens_after} of {budget} tokens"
        if condensed.lost and not _MARK.search(condensed.text):
            yield "lost something without a mark", f"@{budget}: {condensed.lost[0]}: {condensed.text}"


def unfolded_lines(condensed: Condensed, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Equal lines in a row are shown once with their count if others of them are lost."""
    if condensed.kind == "code":
        return  # Their numbers follow from their places.
    without_number = condensed.kind in ("grep", "findings")
    shown = [_NUMBER.sub("", line) if without_number else line.strip() for line in condensed.text.split("\n")]
    often = {
        line for line, run in groupby(shown) if len(list(run)) > MOST_EQUAL and len(_SIGNS.sub("", line)) > MOST_EQUAL
    }
    for first, last in condensed.account.lost if often else ():
        for at in range(first, last + 1):
            own = lines[at - 1].rpartition(":")[2] if without_number else lines[at - 1]
            for line in often:
                if own.strip() and (own.strip() == line or (without_number and line.endswith(own.strip()))):
                    yield "equal lines shown and lost", line
                    often.discard(line)
                    break


def repeating_texts() -> Iterator[tuple[str, str]]:
    """Yield names and texts with equal lines, pairs and headings that findings share."""
    yield (
        "diff",
        "\n".join(["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,0 +1,900 @@", *["+same line here"] * 900]),
    )
    yield "grep", "\n".join(f"src/a.py:{at}:    import os" for at in range(1, 600))
    yield "findings", "\n".join(["src/a.py:3:1: E501 line too long"] * 600)
    yield "manual", "NAME\n       foo - do foo\n\nOPTIONS\n" + "       -x     Same option text.\n\n" * 300
    yield "xml", "\n".join(["<items>", *["<item>same</item>"] * 900, "</items>"])
    yield "page", f"<html><body><h1>T</h1>\n{'<p>The same paragraph is here again.</p>' * 400}\n</body></html>"
    yield "trace", "\n".join(f'openat("/x{at}") = 3' if at % 3 == 0 else f"close({at % 3}) = 0" for at in range(900))
    yield (
        "eslint",
        "\n".join(
            f"/app/m{at}.js\n  {at}:7   error    'thing{at}' is not defined      no-undef\n"
            f"  {at + 9}:12  warning  Unexpected console statement  no-console\n"
            for at in range(40)
        ),
    )
    yield "pairs", json.dumps([{"name": f"n{at}", "value": at * 7 % 13} for at in range(400)], indent=1)
    yield "records", json.dumps([{"k": at, "v": f"val{at}"} for at in range(400)], indent=1)
    lines = [f"bucket.b{at}: Creation complete after {at % 5}s" for at in range(200)]
    yield (
        "apply",
        "\n".join([*lines, "╷", "│ Error: creating role (deployer): exists", "│ ", "│   on main.tf line 12", "╵"]),
    )
