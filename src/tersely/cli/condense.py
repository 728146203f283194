"""`tersely condense`: condenses files or standard input."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.inputs import FILES, STDIN, read_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tersely.condensing.account import Account, Runs
    from tersely.condensing.budget import Condensed

WATCH_SECONDS = 0.5
"""How often --watch looks at the files."""


@click.command()
@FILES
@click.option(
    "--budget", type=int, default=1000, show_default=True, metavar="TOKENS", help="Maximum size of the result."
)
@click.option("--focus", default="", metavar="TEXT", help="What you are looking for; it decides what stays.")
@click.option(
    "--schema-hint",
    default="",
    metavar="TEXT",
    help="What a program will extract from the result; used instead of --focus.",
)
@click.option("--llm", is_flag=True, help="Summarize with the configured model; the masked text is sent to it.")
@click.option(
    "--no-mask", is_flag=True, help="Leave secrets in the result. Not with --llm: models get masked text only."
)
@click.option("--keep", is_flag=True, help="Keep the masked whole; prints the handle for tersely read to stderr.")
@click.option("--watch", is_flag=True, help="Condense again whenever a file changes, until Ctrl-C.")
@click.option("--explain", is_flag=True, help="Print the detected kind and what became of each line to stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with text, sizes and omissions.")
def condense(
    files: tuple[str, ...],
    budget: int,
    focus: str,
    schema_hint: str,
    llm: bool,
    no_mask: bool,
    keep: bool,
    watch: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Condense FILEs (or standard input) to a token budget.

    Hidden characters are removed and secrets are masked first. Without --llm nothing is sent, and without --keep
    nothing is stored: the kind of text (JSON, log, table, page, prose ...) decides how it is shortened, and the focus
    decides what stays. Several files share the budget.

    \b
    journalctl -u api | tersely condense --budget 800 --focus "why does it restart"
    tersely condense build.log test.log --focus "what failed" --watch
    tersely condense page.md --schema-hint "people, dates, prices" --explain
    """
    from tersely.condensing.budget import SMALLEST_BUDGET

    if budget < SMALLEST_BUDGET:
        fail(f"--budget {budget} is too small: at least {SMALLEST_BUDGET} tokens are needed for anything readable.")
    if no_mask and (llm or keep):
        other = "--llm exclude each other: a model gets" if llm else "--keep exclude each other: the store gets"
        fail(f"--no-mask and {other} masked text only.")
    if watch and (not files or STDIN in files):
        fail("--watch needs files: standard input does not change once it is read.")

    def condense_one(text: str, tokens: int) -> Condensed:
        if llm:
            return _summarize(text, tokens, focus, schema_hint)
        return _condense(text, tokens, schema_hint or focus, not no_mask)

    def condense_all() -> None:
        texts = read_inputs(files, verb="condense", example="journalctl -u api | tersely condense --budget 800")
        _condense_inputs(texts, budget, condense_one, keep=keep, explain=explain, as_json=as_json)

    if watch:
        _watch(files, condense_all)
    condense_all()


def _condense_inputs(
    texts: Sequence[tuple[str, str]],
    budget: int,
    condense_one: Callable[[str, int], Condensed],
    *,
    keep: bool,
    explain: bool,
    as_json: bool,
) -> None:
    from tersely.pipeline.several import condense_several

    began = time.perf_counter()
    several = condense_several(texts, budget, condense_one) if len(texts) > 1 else None
    parts = several.parts if several else [(texts[0][0], condense_one(texts[0][1], budget))]
    seconds = time.perf_counter() - began
    handles = _keep(texts) if keep else []
    if as_json:
        documents = [_as_json(condensed, seconds) for _, condensed in parts]
        for document, handle in zip(documents, handles, strict=False):
            document["handle"] = handle
        if several:
            documents = [{"file": name, **document} for (name, _), document in zip(parts, documents, strict=True)]
            sizes = {"tokens_before": several.tokens_before, "tokens_after": several.tokens_after}
            documents = [{"text": several.text, **sizes, "files": documents}]
        click.echo(json.dumps(documents[0], ensure_ascii=False))
        return
    text = several.text if several else parts[0][1].text
    click.echo(text, nl=not text.endswith("\n"))
    for number, (name, condensed) in enumerate(parts):
        if explain:
            _explain(condensed)
        named = f"{name}: " if several else ""
        kept = f" · whole: tersely read {handles[number]}" if handles else ""
        click.secho(f"{named}{_closing_line(condensed, seconds)}{kept}", dim=True, err=True)


def _watch(files: Sequence[str], condense_all: Callable[[], None]) -> None:
    """Call the function now and after every change of a file; a file that is being replaced may be missing."""
    from pathlib import Path

    from tersely.errors import TerselyError

    def stamps() -> list[tuple[int, int, int]] | None:
        try:
            return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in (Path(name).stat() for name in files)]
        except FileNotFoundError:
            return None

    seen: list[tuple[int, int, int]] | None = None
    while True:
        current = stamps()
        if current is not None and current != seen:
            seen = current
            if sys.stdout.isatty():
                click.clear()
            try:
                condense_all()
            except (TerselyError, OSError) as error:
                click.echo(f"tersely: {error}", err=True)
            sys.stdout.flush()
        time.sleep(WATCH_SECONDS)


def _keep(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Keep each text, cleaned and masked, for the user who runs this; return the handles."""
    from datetime import UTC, datetime

    import anyio

    from tersely.app.summarizer import kept_results
    from tersely.masking.mask import Masker
    from tersely.pipeline.admit import admit_text
    from tersely.results.kept import user_scope
    from tersely.settings.model import Settings, find_file
    from tersely.store.results import Origin

    settings = Settings.load(None, find_file(), sections=("store",), here=True)
    masker = Masker()

    async def run() -> list[str]:
        async with kept_results(settings) as kept:
            return [
                await kept.keep(
                    admit_text(text, masker),
                    scope=user_scope(),
                    origin=Origin(
                        server="",
                        tool="condense",
                        arguments={"file": str(masker.mask(name))},
                        called_at=datetime.now(UTC),
                    ),
                )
                for name, text in texts
            ]

    return anyio.run(run)


def _condense(text: str, budget: int, focus: str, mask: bool) -> Condensed:
    from tersely.pipeline.core import condense

    return condense(text, budget=budget, focus=focus, mask=mask)


def _summarize(text: str, budget: int, focus: str, schema_hint: str) -> Condensed:
    check_extra("condense --llm")

    import logging

    import anyio

    from tersely.app.summarizer import summarizer_app
    from tersely.settings.model import SUMMARIZING, Settings, find_file

    settings = Settings.load(None, find_file(), sections=SUMMARIZING, here=True)
    if not settings.summarizing():
        fail(f"--llm needs a model: set {settings.model.missing()}. Without --llm no model is needed.")

    # The closing line reports a failure, so log lines are not needed.
    logging.getLogger("tersely").addHandler(logging.NullHandler())

    async def run() -> Condensed:
        progress = _progress_line()
        async with summarizer_app(settings, fallback="structural", family="technical", in_chunks=False) as parts:
            if schema_hint:
                return await parts.summarizer.summarize_for_extraction(
                    text, schema_hint, max_output_tokens=budget, on_progress=lambda at: progress(at.done, at.total)
                )
            return await parts.summarizer.summarize(
                text, max_output_tokens=budget, focus_areas=focus, on_progress=lambda at: progress(at.done, at.total)
            )

    return anyio.run(run)


def _progress_line() -> Any:
    """A function that redraws one progress line; does nothing if stderr is not a terminal."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done >= total else ""
            click.echo(f"\r  summarizing … {done} of {total} parts", nl=False, err=True)
            click.echo(end, nl=False, err=True)

    return show


def _closing_line(condensed: Condensed, seconds: float) -> str:
    sizes = f"{condensed.tokens_before:,} → {condensed.tokens_after:,} tokens"
    parts = [sizes, condensed.status, f"{seconds:.1f} s"]
    if condensed.status == "passthrough":
        parts[1] = "passthrough: it fits"
    if condensed.returned:
        parts[1] = f"fallback: the {condensed.returned} text, because {condensed.reason}"
    if condensed.cleaned:
        parts.append(f"{condensed.cleaned:,} hidden character{'s' if condensed.cleaned > 1 else ''} removed")
    if condensed.masked:
        parts.append("secrets masked")
    if condensed.work:
        parts.insert(2, condensed.work.model)
        if condensed.work.price_usd:
            parts.append(f"${condensed.work.price_usd:.4f}")
    return " · ".join(parts)


def _explain(condensed: Condensed) -> None:
    from tersely.condensing.account import size_of

    if condensed.kind:
        click.echo(f"\nDetected as: {condensed.kind}", err=True)
    account = condensed.account
    if account.total:
        click.echo(f"Of {account.total:,} line{'s' if account.total > 1 else ''}:", err=True)
        for name, runs in _classes(account):
            if runs:
                click.echo(f"  {size_of(runs):>9,} {name:<24} {_listed(runs)}", err=True)
        hidden, values = account.values
        if hidden:
            click.echo(f"Left out: {hidden:,} of {values:,} values, under {', '.join(account.paths[:5])}", err=True)
    elif condensed.lost:
        click.echo("Left out:", err=True)
        for lost in condensed.lost:
            click.echo(f"  - {lost}", err=True)
    if condensed.work and condensed.work.invented:
        click.echo(f"Not in the source, so possibly invented: {', '.join(condensed.work.invented[:10])}", err=True)
    if condensed.work and condensed.work.derived:
        click.echo(f"Counted or summed by the model: {', '.join(condensed.work.derived[:10])}", err=True)


def _classes(account: Account) -> list[tuple[str, Runs]]:
    return [
        ("shown", account.shown),
        ("shown in part", account.partial),
        ("counted by a shown line", account.folded),
        ("left out", account.lost),
    ]


def _listed(runs: Runs) -> str:
    """The first line ranges: `1–3, 7, …`."""
    listed = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs[:6])
    return listed + (", …" if len(runs) > 6 else "")


def _as_json(condensed: Condensed, seconds: float) -> dict[str, Any]:
    from tersely.pipeline.meta import describe

    work = condensed.work
    return {
        "text": condensed.text,
        **describe(condensed),
        "kind": condensed.kind,
        "returned": condensed.returned,
        "reason": condensed.reason,
        "masked": condensed.masked,
        "seconds": round(seconds, 3),
        "lost": [{"what": lost.what, "lines": [list(run) for run in lost.lines]} for lost in condensed.lost],
        "account": {
            name: [list(run) for run in getattr(condensed.account, name)]
            for name in ("shown", "partial", "folded", "lost")
        },
        "calls": work.calls if work else 0,
        "invented": work.invented if work else [],
        "derived": work.derived if work else [],
        "unverified": bool(work and work.unverified),
        "cut": bool(work and work.cut),
        "cited": work.cited if work else [],
        # Names of the first release.
        "tokens_before": condensed.tokens_before,
        "tokens_after": condensed.tokens_after,
    }
