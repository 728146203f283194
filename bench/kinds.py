"""A text of every kind that has a reader, of any size, and hostile ones; always the same text for the same size.

    text_of("diff", 250_000)

Made of invented words. Numbers and names differ from part to part, so that little of it can be folded.
"""

import json
from collections.abc import Callable
from random import Random

from bench.generator.vocabulary import ADJECTIVES, FAMILY_NAMES, FIRST_NAMES, PLACES, THINGS, pseudo_word


def _words(rng: Random, many: int) -> str:
    return " ".join(rng.choice((rng.choice(ADJECTIVES), rng.choice(THINGS), pseudo_word(rng))) for _ in range(many))


def _name(rng: Random) -> str:
    return f"{pseudo_word(rng)}_{rng.randint(1, 999)}"


def _path(rng: Random) -> str:
    return f"src/{pseudo_word(rng)}/{pseudo_word(rng)}{rng.randint(1, 99)}.py"


def _hash(rng: Random, size: int = 40) -> str:
    return "".join(rng.choices("0123456789abcdef", k=size))


def _time(at: int) -> str:
    return f"2026-03-{1 + at // 86_400 % 28:02d}T{at // 3_600 % 24:02d}:{at // 60 % 60:02d}:{at % 60:02d}"


def _sentence(rng: Random) -> str:
    who = f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}"
    return f"{who} said that the {_words(rng, rng.randint(6, 16))} would come to {rng.choice(PLACES)}."


def _blame(rng: Random, at: int) -> str:
    who = f"({rng.choice(FIRST_NAMES):<10} 2026-03-0{1 + at % 9} 10:00:00 +0000 {at + 1:>6})"
    return f"{_hash(rng, 12)} {who} {_words(rng, 6)}\n"


def _ci_log(rng: Random, at: int) -> str:
    mark = "##[error]" if at % 90 == 5 else "##[group]Run " if at % 20 == 0 else ""
    return f"{_time(at)}.1234567Z " + ("##[endgroup]\n" if at % 20 == 9 else f"{mark}{_words(rng, 7)}\n")


def _configuration(rng: Random, at: int) -> str:
    name = f"{pseudo_word(rng)}-{pseudo_word(rng)}-{at}"
    return f"# {_words(rng, 9)}\n# {_words(rng, 7)}\n{name} {rng.randint(1, 999)}\n\n"


def _csv(rng: Random, at: int) -> str:
    state = rng.choice(("up", "up", "down"))
    return f"{_name(rng)}-{at},{rng.randint(1, 9_999)},{state},{rng.choice(FAMILY_NAMES)}\n"


def _dialogue(rng: Random, at: int) -> str:
    return f"{('Ada Field', 'Ben Stone', 'Cara Wood')[at % 3]}: {_sentence(rng)} {_sentence(rng)}\n"


def _diff(rng: Random, at: int) -> str:
    path = _path(rng)
    lines = [f"diff --git a/{path} b/{path}", f"index {_hash(rng, 9)}..{_hash(rng, 9)} 100644"]
    lines += [f"--- a/{path}", f"+++ b/{path}"]
    for hunk in range(2):
        lines.append(f"@@ -{40 * hunk + 1},6 +{40 * hunk + 1},7 @@ def {_name(rng)}_{at}():")
        lines += [f"{sign}    {_name(rng)} = {_name(rng)}({rng.randint(1, 99)})" for sign in "  -++ "]
    return "\n".join(lines) + "\n"


def _event(rng: Random, at: int) -> str:
    level = rng.choice(("INFO", "INFO", "ERROR"))
    service = f"Service: {pseudo_word(rng)}\nMessage: {_words(rng, 7)}"
    return f"Timestamp: {_time(at)}\nSeverity: {level}\n{service}\n\n"


def _finding(rng: Random, at: int) -> str:
    place = f"{_path(rng)}:{at % 900 + 1}:{rng.randint(1, 80)}"
    return f"{place}: error: {_words(rng, 7)} [{pseudo_word(rng)}]\n"


def _hit(rng: Random, at: int) -> str:
    return f"{_path(rng)}:{at % 900 + 1}:    {_name(rng)} = {_words(rng, 6)}\n"


def _html(rng: Random, at: int) -> str:
    link = f"<ul><li><a href='/{at}'>{_words(rng, 2)}</a></li></ul>"
    return f"<h2>{_words(rng, 4)}</h2>\n<p>{_sentence(rng)} {_sentence(rng)}</p>\n{link}\n"


def _record(rng: Random, at: int) -> str:
    return json.dumps(
        {
            "name": f"{_name(rng)}-{at}",
            "state": rng.choice(("ready", "ready", "ready", "failed")),
            "spec": {"memory": rng.randint(1, 9_999), "labels": [_name(rng), _name(rng)], "note": _words(rng, 4)},
        },
        indent=1,
    )


def _json(rng: Random, at: int) -> str:
    return ("," if at else "") + _record(rng, at)


def _json_line(rng: Random, at: int) -> str:
    level = rng.choice(("info", "info", "error"))
    return json.dumps({"time": _time(at), "level": level, "msg": _words(rng, 6)}) + "\n"


def _commit(rng: Random, at: int) -> str:
    who = f"{rng.choice(FIRST_NAMES)} {rng.choice(FAMILY_NAMES)}"
    said = "\n".join(f"    {_words(rng, 9)}" for _ in range(rng.randint(1, 4)))
    return f"commit {_hash(rng)}\nAuthor: {who} <{pseudo_word(rng)}@example.com>\nDate:   {_time(at)}\n\n{said}\n\n"


def _log(rng: Random, at: int) -> str:
    if at % 40 == 39:
        frames = f"\tat a.b.C{at}.run(C.java:{at % 900})\n\tat a.b.D.run(D.java:{at % 70})\n"
        return f"{_time(at)} ERROR [{_name(rng)}] {_words(rng, 5)}: timeout\n{frames}"
    level = rng.choice(("INFO",) * 8 + ("WARN", "ERROR"))
    return f"{_time(at)} {level} [{_name(rng)}] {_words(rng, 6)} took {rng.randint(1, 900)} ms\n"


def _option(rng: Random, at: int) -> str:
    below = " " * 14
    name = f"--{pseudo_word(rng)}-{at}={pseudo_word(rng).upper()}"
    return f"       {name}\n{below}{_words(rng, 9)}.\n{below}{_words(rng, 8)}.\n\n"


def _metric(rng: Random, at: int) -> str:
    name = f"{_name(rng)}_{at}"
    return f'# TYPE {name} gauge\n{name}{{job="{pseudo_word(rng)}"}} {rng.randint(1, 9_999)}\n'


def _cell(rng: Random, at: int) -> str:
    outputs = [{"output_type": "stream", "name": "stdout", "text": [_words(rng, 8) + "\n"]}]
    cell = {"cell_type": "code", "execution_count": at, "metadata": {}, "outputs": outputs, "source": [_code(rng, at)]}
    return ("," if at else "") + json.dumps(cell)


def _description(rng: Random, at: int) -> str:
    inside = f"  {_name(rng)}:\n    Image:    {_name(rng)}:{at}\n    Restarts: {rng.randint(0, 9)}"
    above = f"Name:         {_name(rng)}-{at}\nNamespace:    {pseudo_word(rng)}\nStatus:       Running"
    return f"{above}\nContainers:\n{inside}\n\n"


def _page(rng: Random, at: int) -> str:
    text = f"{_sentence(rng)} [{_words(rng, 2)}](https://example.com/{at}) {_sentence(rng)}"
    return f"## {_words(rng, 4)}\n\n{text}\n\n* [{_words(rng, 2)}](/{at})\n\n"


def _prose(rng: Random, at: int) -> str:
    return " ".join(_sentence(rng) for _ in range(5)) + "\n\n"


def _code(rng: Random, at: int) -> str:
    body = "".join(f"    {_name(rng)} = {_name(rng)}({rng.randint(1, 99)}, {_name(rng)})\n" for _ in range(5))
    return f"def {_name(rng)}_{at}({_name(rng)}: int) -> str:\n{body}    return {_name(rng)}\n\n\n"


def _row(rng: Random, at: int) -> str:
    state = rng.choice(("Running", "Running", "Failed"))
    return f"{_name(rng) + str(at):<40}{rng.randint(1, 9_999):>8}   {state:<12}{rng.randint(1, 99)}d\n"


def _test(rng: Random, at: int) -> str:
    return f"{_name(rng)}_{at} (tests.{pseudo_word(rng)}.Test{at}) ... {'FAIL' if at % 50 == 7 else 'ok'}\n"


def _line(rng: Random, at: int) -> str:
    return f"{_words(rng, rng.randint(2, 9))}\n"


def _xml(rng: Random, at: int) -> str:
    inside = f"<size>{rng.randint(1, 999)}</size><note>{_words(rng, 4)}</note>"
    return f"  <item name='{_name(rng)}-{at}'>{inside}</item>\n"


def _yaml(rng: Random, at: int) -> str:
    labels = f"  labels:\n    app: {_name(rng)}\n    note: {_words(rng, 4)}"
    return f"- name: {_name(rng)}-{at}\n  size: {rng.randint(1, 999)}\n{labels}\n"


Part = Callable[[Random, int], str]

KINDS: dict[str, tuple[str, Part, str]] = {
    "blame": ("", _blame, ""),
    "ci_log": ("", _ci_log, ""),
    "code": ("import os\n\n\n", _code, ""),
    "config": ("", _configuration, ""),
    "csv": ("name,size,state,owner\n", _csv, ""),
    "dialogue": ("", _dialogue, ""),
    "diff": ("", _diff, ""),
    "events": ("", _event, ""),
    "findings": ("", _finding, ""),
    "grep": ("", _hit, ""),
    "html": ("<!DOCTYPE html>\n<html><head><title>t</title></head><body>\n", _html, "</body></html>\n"),
    "json": ("[", _json, "]"),
    "json_cut": ('"labels": ["a", "b"], "note": "c"}},\n', lambda rng, at: _record(rng, at) + ",\n", ""),
    "jsonl": ("", _json_line, ""),
    "log": ("", _log, ""),
    "manual": ("TOOL(1)          User Commands          TOOL(1)\n\nNAME\n       tool\n\nOPTIONS\n", _option, ""),
    "metrics": ("", _metric, ""),
    "notebook": ('{"cells": [', _cell, '], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'),
    "outline": ("", _description, ""),
    "page": ("", _page, ""),
    "prose": ("", _prose, ""),
    "records": ("", _commit, ""),
    "table": (f"{'NAME':<40}{'SIZE':>8}   {'STATUS':<12}AGE\n", _row, ""),
    "test_run": ("", _test, f"\n{'-' * 70}\nRan 90 tests in 1.200s\n\nFAILED (failures=2)\n"),
    "text": ("", _line, ""),
    "xml": ("<?xml version='1.0'?>\n<items>\n", _xml, "</items>\n"),
    "yaml": ("items:\n", _yaml, ""),
}
"""By kind: how a text begins, its parts, and how it ends."""

HOSTILE: dict[str, tuple[str, Part, str]] = {
    "open brackets": ("", lambda rng, at: '{"a":[' * 100, ""),
    "one long line": ("", lambda rng, at: "x7" * 300, ""),
    "one word per line": ("", lambda rng, at: f"{pseudo_word(rng, 3)}{at}\n", ""),
    "blanks": (" " * 5_000, lambda rng, at: "\n" * 500 + "  ", "end"),
    "the same line": ("", lambda rng, at: "worker: connection refused\n" * 10, ""),
    "lists of lists": (
        "[",
        lambda rng, at: f"[[{at}, {at % 7}.5], [{at % 9}, 1.25], [{rng.randint(1, 99)}, 2]], ",
        "[]]",
    ),
    "a string without an end": ('{"log": "', lambda rng, at: f'{_time(at)} said \\"{_name(rng)}\\" again\\n', ""),
    "quotes and backslashes": ("", lambda rng, at: '"\\' * 200 + "\n", ""),
    "deeper and deeper": ("", lambda rng, at: " " * (at % 400) + f"key{at}:\n", ""),
    "signs": ("", lambda rng, at: "".join(rng.choices("|-=+#*:.,;()[]{}<>", k=80)) + "\n", ""),
    "digits": ("", lambda rng, at: "".join(rng.choices("0123456789.:-", k=120)) + "\n", ""),
}


def text_of(kind: str, size: int) -> str:
    """Return a text of a kind with about so many characters."""
    opening, part, closing = (KINDS | HOSTILE)[kind]
    rng = Random(kind)
    parts = [opening]
    have = at = 0
    while have < size:
        parts.append(part(rng, at))
        have += len(parts[-1])
        at += 1
    return "".join([*parts, closing])
