"""`tersely mask`: replaces secrets in files or standard input."""

from __future__ import annotations

import re
import sys
from collections import Counter

import click

from tersely.cli.inputs import FILES, read_inputs

_MARK = re.compile(r"\[MASKED:([a-z0-9_]{1,40}):[0-9a-f]{8,12}\]")


@click.command(name="mask")
@FILES
@click.option("--check", is_flag=True, help="Print no text; list the files with secrets and exit with code 1.")
def mask_text(files: tuple[str, ...], check: bool) -> None:
    """Replace secrets in FILEs (or standard input) by marks.

    A mark names the kind of secret; equal secrets have equal marks. Everything else stays as it is. Several files are
    written one after the other. Nothing is stored and nothing is sent.

    \b
    kubectl describe pod api | tersely mask > for-the-ticket.txt
    git diff --cached | tersely mask --check
    """
    from tersely.masking.mask import Masker

    masker = Masker()
    total: Counter[str] = Counter()
    for name, text in read_inputs(files, verb="mask", example="env | tersely mask"):
        masked = masker.mask(text)
        found = Counter(_MARK.findall(masked))
        found.subtract(_MARK.findall(text))
        kinds = Counter({kind: count for kind, count in found.items() if count > 0})
        total += kinds
        if not check:
            sys.stdout.write(masked)
        elif kinds:
            click.echo(f"{name}: {_listed(kinds)}")
    if not check or not total:
        click.secho(f"{_listed(total)} masked" if total and not check else "no secrets found", dim=True, err=True)
    raise SystemExit(1 if check and total else 0)


def _listed(kinds: Counter[str]) -> str:
    count = sum(kinds.values())
    named = ", ".join(f"{kind} ×{number}" if number > 1 else kind for kind, number in kinds.most_common())
    return f"{count:,} secret{'s' if count > 1 else ''} ({named})"
