"""Kinds of texts, told by a sample of their lines."""

import importlib
from pkgutil import iter_modules

import pytest

from tersely import condense
from tersely.condensing import readers as package
from tersely.condensing.detect import Reader, Sample, detect, kind_of, readers

POD_TABLE = "NAME        READY   STATUS    RESTARTS   AGE\n" + "\n".join(
    f"web-{number}       1/1     Running   {number}          {number}d" for number in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1, "b": [1, 2]}', "json"),
        ('[{"a": 1},\n {"a": 2}]', "json"),
        ('{"a": 1}\n{"a": 2}\n{"a": 3}\n', "jsonl"),
        ('"a": 1,\n  "b": "x"\n},\n{\n  "a": 2,\n  "b": "y"\n},\n', "json_cut"),
        ("<?xml version='1.0'?>\n<list><item>1</item></list>", "xml"),
        (
            "<scan><issue><text><![CDATA[<p>a</p><p>b</p><div>c</div><span>d</span><p>e</p>]]></text></issue></scan>",
            "xml",
        ),
        ("<!doctype html><html><body><p>Hi</p></body></html>", "html"),
        ("name,size\na,1\nb,2\nc,3\nd,4\n", "csv"),
        ("name~|~size~|~age\na~|~1~|~3\nb~|~2~|~4\nc~|~3~|~5\n", "csv"),
        (POD_TABLE, "table"),
        ("two lines of something else\nbefore it begins\n" + POD_TABLE, "table"),
        (
            "## @param name Name of it\n## @param size Bytes it may use\nname: web\n## @param at\nat:\n  # ok\n  b: 1\n",
            "yaml",
        ),
        ("kind: Pod\nmetadata:\n  name: web-1\n  labels:\n    app: web\nspec:\n  replicas: 3\n", "yaml"),
        (
            "Name:         web-1\nNamespace:    default\nPriority:     0\nNode:         n1\nStatus:       Running\n",
            "outline",
        ),
        ("[web]\nport = 80\nhost = a\n[db]\nport = 5432\nhost = b\n[cache]\nport = 1\nhost = c\n", "outline"),
        ('# HELP up Whether it is up.\n# TYPE up gauge\nup{job="a"} 1\nup{job="b"} 0\n', "metrics"),
        ("2025-01-01T10:37:30Z INFO started\n2025-01-01T10:37:31Z INFO ready\n2025-01-01T10:37:32Z WARN slow\n", "log"),
        ("src/a.py:12:def one():\nsrc/a.py:40:def two():\nsrc/b.py:3:import os\n", "grep"),
        ("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "diff"),
        ("", "text"),
    ],
)
def test_a_text_is_taken_for_what_it_is(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_times_with_colons_are_no_search_results() -> None:
    assert (
        kind_of(
            "\n".join(
                f"nova-api.log.1.2017-05-16_13:53:{second:02d} 2017-05-16 00:00:{second:02d}.008 INFO x"
                for second in range(20)
            )
        )
        == "log"
    )


PLAIN_PAGE = """Home
Shop
Contact
Subscribe: weekly
Why the old harbour bridge had to be closed for the winter
By: Ines Moura
The city closed the old harbour bridge on Monday after inspectors found cracks in two of its four main cables.
Engineers expect that the repair will take until spring, because the cables have to be made to measure abroad.
Until then the ferry runs every ten minutes between the fish market and the eastern quay, also on Sundays.
Shop owners on the eastern side fear for the Christmas trade and have asked the council for support.
Related: Ten quays to see
Share: Mail
Imprint: here
"""


def test_a_page_copied_as_plain_text_is_a_page_and_no_list_of_keys() -> None:
    assert kind_of(PLAIN_PAGE) == "page"


def test_messages_that_come_again_are_a_log_even_without_time_and_level() -> None:
    lines = [f"worker {n % 7} picked job {n * 37 % 1000} from queue orders" for n in range(40)]
    lines += [f"job {n * 37 % 1000} done after {n % 90} ms" for n in range(40)]
    assert kind_of("\n".join(lines)) == "log"


def test_seconds_since_the_start_make_a_log() -> None:
    lines = [f"[{number * 3.7:14.6f}] usb 1-{number % 4}: new device number {number}" for number in range(40)]
    assert detect("\n".join(lines), json=False).kind == "log"


def test_values_with_their_names_beside_them_are_no_table() -> None:
    lines = [f"#{number} [mass: {number * 7}; site: Lund; state: open]" for number in range(40)]
    assert kind_of("\n".join(lines)) == "text"


_SAID = "Use of something unsafe was detected here and it should be replaced by the safer call instead."

BANDIT = "\n".join(
    f">> Issue: [B{100 + n % 9}:check] {_SAID}\n   Severity: {'High' if n == 37 else 'Low'}   Confidence: High\n"
    f"   Location: app/mod{n}.py:{10 + n}:4\n{10 + n}\tx = eval(data{n})\n---------------"
    for n in range(60)
)
COMMENTED_CONFIG = "\n".join(
    f"# By default the server number {n} does not close a connection that has been idle for a long time.\n"
    f"# It is a good idea to set a limit here if many clients connect and never say that they are done.\n"
    f"idle-limit-{n} {n * 60}\n"
    for n in range(80)
)
COMPILER = "\n".join(
    f"src/part{n}.ts({n},7): error TS2345: Argument of type 'string' is not assignable to it.\n"
    f"The types of the two properties are incompatible with each other in the call that is made here.\n"
    f"Type 'undefined' is not one of the types that the parameter of this function may have in strict mode."
    for n in range(60)
)
ONE_LINE_LOG = "\n".join(
    f"{n * 7919 % 0xFFFFFFF:07x} Fix the way in which the worker closes its connection after it has been idle too long."
    for n in range(16, 200)
)
UNMARKED = "\n".join(
    f"The check of part {n} found that the value was written before the lock was held by this thread."
    if n % 3
    else f"part-{n} checked"
    for n in range(100)
)


@pytest.mark.parametrize("text", [BANDIT, COMMENTED_CONFIG, COMPILER, ONE_LINE_LOG, UNMARKED])
def test_plain_text_is_no_page_however_many_sentences_it_has(text: str) -> None:
    assert kind_of(text) not in ("page", "html")
    assert "menus" not in condense(text, 400, "Which findings are of high severity?", mask=False).text


def test_a_report_of_findings_keeps_the_finding_asked_for() -> None:
    shown = condense(BANDIT, 1_000, "Which findings are of high severity?", mask=False).text
    assert "Severity: High" in shown


def test_one_sign_of_a_website_makes_no_page() -> None:
    assert kind_of(UNMARKED + "\ncookie: session") != "page"


def test_messages_behind_a_program_and_a_level_are_no_prose() -> None:
    text = "\n".join(f"npm warn deprecated {name}@1.0: This package is no longer supported." for name in "abcdefghijkl")

    assert kind_of(text + "\nnpm error code ERESOLVE\nnpm error Could not resolve the dependency of lid.") == "log"


def test_every_kind_is_a_module_with_one_reader() -> None:
    """A new kind of text is one new module: nothing else lists the kinds."""
    modules = [importlib.import_module(f"{package.__name__}.{each.name}") for each in iter_modules(package.__path__)]
    found = [module.READER for module in modules if hasattr(module, "READER")]
    assert len({reader.kind for reader in found}) == len(found) == len(readers())
    assert all(
        isinstance(value, Reader) for module in modules for name, value in vars(module).items() if name == "READER"
    )
    for reader in found:
        assert set(reader.before) <= set(readers()), reader.kind


def test_the_winner_is_the_most_confident_reader() -> None:
    texts = (PLAIN_PAGE, UNMARKED, '{"a": 1}', "a,b,c\n" * 9, "2026-01-01 12:00:00 INFO started\n" * 9, "plain words")
    for text in texts:
        confidence = {reader.kind: reader.detect(Sample(text)) for reader in readers().values()}
        assert kind_of(text) == max(confidence, key=confidence.__getitem__), confidence


def test_a_text_in_which_no_tag_ends_is_no_xml() -> None:
    lines = [f"<frozen importlib._bootstrap>:{row}: size={row} B, count=3" for row in range(1, 60)]
    assert kind_of("\n".join(lines)) != "xml"
    assert kind_of("<oven><tray>1</tray><tray>2</tray></oven>") == "xml"
