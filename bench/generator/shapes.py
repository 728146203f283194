"""Shapes render records as text: one function per shape, open ones here, held-out ones in `held_out`.

A shape gets a collection and returns its text. It may reorder, nest, quote and decorate;
it must not change a name or a value.
"""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from xml.sax.saxutils import escape, quoteattr

from bench.generator.records import UNKNOWN, Collection, Field, Value, as_number
from bench.generator.vocabulary import PLACES, hex_digits, pseudo_word

Writer = Callable[[Random, Collection], str]
ALL_ASKS = ("lookup", "oddity", "extreme", "filter")


@dataclass(frozen=True)
class Shape:
    name: str
    write: Writer
    asks: tuple[str, ...] = ALL_ASKS
    width: tuple[int, int] = (4, 12)
    """How many fields a record may have."""

    styles: tuple[str, ...] = ()
    """Which kinds of names fit, where not all do."""

    plain_figures: bool = False
    """Writes figures without their unit."""

    held_out: bool = False


SHAPES: dict[str, Shape] = {}


def shape(
    name: str,
    *,
    asks: tuple[str, ...] = ALL_ASKS,
    width: tuple[int, int] = (4, 12),
    styles: tuple[str, ...] = (),
    plain_figures: bool = False,
    held_out: bool = False,
) -> Callable[[Writer], Writer]:
    def keep(write: Writer) -> Writer:
        SHAPES[name] = Shape(name, write, asks, width, styles, plain_figures, held_out)
        return write

    return keep


NO_BLANKS = ("kebab", "kebab-number", "kebab-hash", "code", "dotted", "path", "uuid", "integer", "snake")
AS_KEY = ("kebab", "kebab-number", "kebab-hash", "code", "snake", "title", "path")

Tree = dict[str, "Tree | Value | list[Tree]"]


def nested(collection: Collection, row: dict[Field, Value], *, with_identity: bool = True) -> Tree:
    tree: Tree = {}
    for column in collection.columns if with_identity else collection.fields:
        if row[column] == UNKNOWN:
            continue
        *parents, last = collection.path(column)
        place = tree
        for parent in parents:
            below = place.setdefault(parent, {})
            place = below if isinstance(below, dict) else place
        place[last] = row[column]
    return tree


def flat(collection: Collection, row: dict[Field, Value]) -> dict[str, Value]:
    return {collection.label(column): row[column] for column in collection.columns if row[column] != UNKNOWN}


def cells(collection: Collection) -> list[list[str]]:
    """Header and rows as text."""
    return [
        [collection.label(column) for column in collection.columns],
        *([str(row[column]) for column in collection.columns] for row in collection.rows),
    ]


# --- JSON


@shape("json list, indented")
def json_list(rng: Random, collection: Collection) -> str:
    return json.dumps([nested(collection, row) for row in collection.rows], indent=rng.choice((1, 2, 4)))


@shape("json list, one line")
def json_one_line(rng: Random, collection: Collection) -> str:
    return json.dumps(
        [flat(collection, row) for row in collection.rows], separators=rng.choice(((",", ":"), (", ", ": ")))
    )


@shape("json lines")
def json_lines(rng: Random, collection: Collection) -> str:
    write = rng.choice((flat, nested))
    return "\n".join(json.dumps(write(collection, row)) for row in collection.rows)


@shape("json envelope, deep")
def json_envelope(rng: Random, collection: Collection) -> str:
    items = [
        {"metadata": {"uid": hex_digits(rng, 16), **_head(collection, row)}, "spec": _rest(collection, row)}
        for row in collection.rows
    ]
    envelope = {
        "apiVersion": f"{pseudo_word(rng)}.example/v1",
        "kind": collection.noun.title().replace(" ", "") + "List",
        "metadata": {"resourceVersion": str(rng.randint(10000, 99999)), "continue": ""},
        "items": items,
    }
    return json.dumps(envelope, indent=2 if rng.random() < 0.7 else None)


def _head(collection: Collection, row: dict[Field, Value]) -> Tree:
    return {collection.naming(collection.identity.words): row[collection.identity]}


def _rest(collection: Collection, row: dict[Field, Value]) -> Tree:
    return nested(collection, row, with_identity=False)


@shape("json map of records", styles=AS_KEY)
def json_map(rng: Random, collection: Collection) -> str:
    records = {collection.name(row): _rest(collection, row) for row in collection.rows}
    whole: object = (
        {collection.naming(collection.plural): records, "total": len(records)} if rng.random() < 0.6 else records
    )
    return json.dumps(whole, indent=2 if rng.random() < 0.7 else None)


@shape("json levels")
def json_levels(rng: Random, collection: Collection) -> str:
    """Regions, sites, racks, and only then the records."""
    places = rng.sample(PLACES, k=6)
    tree: dict[str, dict[str, list[Tree]]] = {}
    for index, row in enumerate(collection.rows):
        region = places[index * len(places) // len(collection.rows)]
        tree.setdefault(region, {}).setdefault(f"{rng.choice('ABCD')}{rng.randint(1, 3)}", []).append(
            nested(collection, row)
        )
    regions = [
        {
            "region": region,
            "zones": [
                {"zone": zone, "racks": {collection.naming(collection.plural): rows}} for zone, rows in zones.items()
            ],
        }
        for region, zones in tree.items()
    ]
    return json.dumps({"data": {"topology": {"regions": regions}}}, indent=2 if rng.random() < 0.6 else None)


@shape("json columns and rows")
def json_rows(rng: Random, collection: Collection) -> str:
    rows = [[row[column] for column in collection.columns] for row in collection.rows]
    whole = {
        "columns": [collection.label(column) for column in collection.columns],
        "rows": rows,
        "rowCount": len(rows),
    }
    if rng.random() < 0.5:
        return json.dumps(whole)
    return (
        '{"columns": '
        + json.dumps(whole["columns"])
        + ',\n "rows": [\n'
        + ",\n".join(json.dumps(row) for row in rows)
        + "]}"
    )


@shape("json settings, wide", asks=("lookup",), width=(8, 12))
def json_settings(rng: Random, collection: Collection) -> str:
    """One object with very many keys; the record is a section."""
    tree: Tree = {"version": 3, "generated": "2026-09-14"}
    for row in collection.rows:
        for column in collection.known(row):
            tree[f"{collection.name(row)}.{collection.label(column)}"] = row[column]
    return json.dumps(tree, indent=2)


@shape("json sub-lists", styles=NO_BLANKS)
def json_sublists(rng: Random, collection: Collection) -> str:
    """Orders with their lines: each record lies in the list of some parent."""
    parents = []
    rows = [nested(collection, row) for row in collection.rows]
    at = 0
    while at < len(rows):
        count = rng.randint(2, 9)
        parents.append(
            {
                "id": f"grp-{rng.randint(1000, 9999)}",
                "opened": f"2026-03-{rng.randint(1, 28):02d}",
                "region": rng.choice(PLACES),
                collection.naming(collection.plural): rows[at : at + count],
                "checksum": hex_digits(rng, 8),
            }
        )
        at += count
    return json.dumps(parents, indent=rng.choice((None, 2)))


@shape("json in a string")
def json_in_string(rng: Random, collection: Collection) -> str:
    inner = json.dumps([flat(collection, row) for row in collection.rows], indent=rng.choice((None, 2)))
    return json.dumps({"ok": True, "tool": f"{pseudo_word(rng)}.list", "exit_code": 0, "output": inner, "stderr": ""})


@shape("json in a sentence")
def json_in_sentence(rng: Random, collection: Collection) -> str:
    body = json.dumps({"result": [nested(collection, row) for row in collection.rows]}, indent=rng.choice((None, 2)))
    return (
        f"Here is what {pseudo_word(rng)}-cli returned for {collection.plural}:\n\n{body}\n\nThe request took "
        f"{rng.randint(100, 900)} ms."
    )


@shape("json, two kinds of records")
def json_two_kinds(rng: Random, collection: Collection) -> str:
    out: list[Tree] = []
    for row in collection.rows:
        out.append({"type": collection.noun, **nested(collection, row)})
        if rng.random() < 0.5:
            out.append(
                {
                    "type": "audit",
                    "actor": pseudo_word(rng),
                    "at": f"2026-02-{rng.randint(1, 28):02d}",
                    "seq": rng.randint(1, 99999),
                }
            )
    return json.dumps(out, indent=rng.choice((None, 2)))


@shape("python literals")
def python_literals(rng: Random, collection: Collection) -> str:
    if rng.random() < 0.5:
        return repr(
            [{**flat(collection, row), "active": rng.random() < 0.5, "parent": None} for row in collection.rows]
        )
    return "\n".join(repr(flat(collection, row)) for row in collection.rows)


# --- YAML


def _yaml_value(value: Value) -> str:
    text = str(value)
    if isinstance(value, str) and (
        text[:1] in "-?:,[]{}#&*!|>'\"%@`"
        or ": " in text
        or text.replace(".", "", 1).isdigit()
        or text in {"on", "off"}
    ):
        return json.dumps(text)
    return text


def _yaml(tree: Tree, indent: int) -> list[str]:
    lines: list[str] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines.append(f"{' ' * indent}{key}:")
            lines.extend(_yaml(value, indent + 2))
        elif not isinstance(value, list):
            lines.append(f"{' ' * indent}{key}: {_yaml_value(value)}")
    return lines


@shape("yaml list")
def yaml_list(rng: Random, collection: Collection) -> str:
    lines = [f"{collection.naming(collection.plural)}:"]
    for row in collection.rows:
        first, *rest = _yaml(nested(collection, row), 2)
        lines.append("- " + first.strip())
        lines.extend(rest)
    return "\n".join(lines) + "\n"


@shape("yaml documents")
def yaml_documents(rng: Random, collection: Collection) -> str:
    kind = collection.noun.title().replace(" ", "")
    documents = []
    for row in collection.rows:
        tree: Tree = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {**_head(collection, row), "generation": rng.randint(1, 9)},
            "spec": _rest(collection, row),
        }
        documents.append("\n".join(_yaml(tree, 0)))
    return "\n---\n".join(documents) + "\n"


@shape("yaml map", styles=("kebab", "kebab-number", "kebab-hash", "code", "snake"))
def yaml_map(rng: Random, collection: Collection) -> str:
    lines = ["# managed by hand, please keep sorted", f"{collection.naming(collection.plural)}:"]
    for row in collection.rows:
        lines.append(f"  {collection.name(row)}:")
        lines.extend(_yaml(_rest(collection, row), 4))
    return "\n".join(lines) + "\n"


# --- Tables


@shape("csv")
def comma_separated(rng: Random, collection: Collection) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), lineterminator="\n").writerows(
        cells(collection)
    )
    return out.getvalue()


@shape("tsv")
def tab_separated(rng: Random, collection: Collection) -> str:
    return "\n".join("\t".join(line) for line in cells(collection))


def aligned(rows: list[list[str]], *, gap: int = 3, right: frozenset[int] = frozenset()) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def heading(column: Field) -> str:
    """Column heads of listings are upper case, their words joined."""
    return f"{column.group} {column.words}".strip().upper().replace(" ", "-")


@shape("aligned table", width=(3, 7), styles=NO_BLANKS)
def aligned_table(rng: Random, collection: Collection) -> str:
    header = [heading(column) for column in collection.columns]
    return "\n".join(aligned([header, *cells(collection)[1:]]))


@shape("process table", width=(3, 8), styles=NO_BLANKS)
def process_table(rng: Random, collection: Collection) -> str:
    """Numbers to the right, one blank between columns, the last column runs on."""
    columns = [column for column in collection.fields if not any(" " in str(row[column]) for row in collection.rows)]
    header = [heading(column) for column in columns] + [heading(collection.identity)]
    rows = [
        [str(row[column]) for column in columns]
        + [f"{collection.name(row)} --{pseudo_word(rng)} {rng.choice(PLACES).lower()}"]
        for row in collection.rows
    ]
    right = frozenset(index for index, column in enumerate(columns) if column.kind == "number")
    return "\n".join(aligned([header, *rows], gap=1, right=right))


@shape("markdown table")
def markdown_table(rng: Random, collection: Collection) -> str:
    header, *rows = cells(collection)
    lines = [f"## {collection.plural.title()}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


@shape("ascii table", width=(3, 8))
def ascii_table(rng: Random, collection: Collection) -> str:
    rows = cells(collection)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    body = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join(
        [rule, body[0], rule, *body[1:], rule, f"{len(rows) - 1} rows in set (0.0{rng.randint(1, 9)} sec)"]
    )


@shape("query result", width=(3, 8))
def query_result(rng: Random, collection: Collection) -> str:
    rows = cells(collection)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    body = [
        " " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([body[0], "+".join("-" * (width + 2) for width in widths), *body[1:], f"({len(rows) - 1} rows)"])


# --- XML


def _tag(words: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in words)


@shape("xml elements")
def xml_elements(rng: Random, collection: Collection) -> str:
    item = _tag(collection.noun)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<{item}-list>"]
    for row in collection.rows:
        lines.append(f"  <{item}>")
        lines.extend(
            f"    <{_tag(collection.label(c))}>{escape(str(row[c]))}</{_tag(collection.label(c))}>"
            for c in collection.columns
        )
        lines.append(f"  </{item}>")
    return "\n".join([*lines, f"</{item}-list>"])


@shape("xml attributes")
def xml_attributes(rng: Random, collection: Collection) -> str:
    item = _tag(collection.noun)
    body = [
        f"  <{item} "
        + " ".join(f"{_tag(collection.label(c))}={quoteattr(str(row[c]))}" for c in collection.columns)
        + "/>"
        for row in collection.rows
    ]
    return "\n".join([f'<{item}s count="{len(body)}">', *body, f"</{item}s>"])


# --- Traces


@shape("trace, spans with tags", asks=("lookup", "oddity", "extreme"), width=(4, 7))
def trace_spans(rng: Random, collection: Collection) -> str:
    trace = hex_digits(rng, 16)
    spans = []
    for row in collection.rows:
        tags = [{"key": collection.label(c), "type": "string", "value": row[c]} for c in collection.known(row)]
        spans.append(
            {
                "traceID": trace,
                "spanID": hex_digits(rng, 16),
                "operationName": collection.name(row),
                "references": [{"refType": "CHILD_OF", "traceID": trace, "spanID": hex_digits(rng, 16)}],
                "startTime": 1_790_000_000_000_000 + rng.randint(0, 999_999),
                "tags": tags,
                "logs": [],
            }
        )
    return json.dumps({"data": [{"traceID": trace, "spans": spans}]}, indent=rng.choice((None, 2)))


# --- Key and value


@shape("describe blocks", styles=NO_BLANKS)
def describe(rng: Random, collection: Collection) -> str:
    pad = 4 + max(len(column.words) for column in collection.columns)
    blocks = []
    for row in collection.rows:
        lines = [f"{collection.identity.words.title() + ':':<{pad}}{collection.name(row)}"]
        for group in ["", *sorted({column.group for column in collection.fields} - {""})]:
            margin = "  " if group else ""
            if group:
                lines.append(f"{group.title()}:")
            lines.extend(
                f"{margin}{column.words.title() + ':':<{pad}}{row[column]}"
                for column in collection.known(row)
                if column.group == group
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


@shape("ini sections")
def ini(rng: Random, collection: Collection) -> str:
    equals = rng.choice((" = ", "=", ": "))
    return "\n\n".join(
        f"[{collection.name(row)}]\n"
        + "\n".join(f"{collection.label(column)}{equals}{row[column]}" for column in collection.known(row))
        for row in collection.rows
    )


@shape("properties", asks=("lookup", "extreme", "oddity"), styles=("kebab", "kebab-number", "code", "snake", "dotted"))
def properties(rng: Random, collection: Collection) -> str:
    prefix = _tag(collection.noun).replace("-", ".")
    return "\n".join(
        f"{prefix}.{collection.name(row)}.{collection.label(column)}={row[column]}"
        for row in collection.rows
        for column in collection.known(row)
    )


@shape("record blocks")
def record_blocks(rng: Random, collection: Collection) -> str:
    pad = rng.choice((0, 20))
    return "\n\n".join(
        "\n".join(f"{collection.label(column):<{pad}}: {row[column]}" for column in collection.columns)
        for row in collection.rows
    )


# --- Metrics


def _metric(collection: Collection, column: Field) -> str:
    return _tag(f"{collection.noun} {column.group} {column.words}").replace("-", "_").replace("__", "_")


def _figure(value: Value) -> str:
    figure = as_number(value)
    return str(int(figure)) if figure == int(figure) and not isinstance(value, float) else str(figure)


@shape("metrics exposition", asks=("lookup", "extreme"), plain_figures=True)
def exposition(rng: Random, collection: Collection) -> str:
    labels = [column for column in collection.fields if column.kind == "state"]
    lines = []
    for column in [column for column in collection.fields if column.kind == "number"]:
        name = _metric(collection, column)
        lines += [f"# HELP {name} {column.words} of each {collection.noun}.", f"# TYPE {name} gauge"]
        for row in collection.rows:
            pairs = [
                (collection.identity.words.replace(" ", "_"), row[collection.identity]),
                *((c.words.replace(" ", "_"), row[c]) for c in labels),
            ]
            lines.append(
                f"{name}{{" + ",".join(f'{key}="{value}"' for key, value in pairs) + f"}} {_figure(row[column])}"
            )
    return "\n".join(lines) + "\n"


@shape("metrics vector", asks=("lookup", "extreme"), width=(4, 6), plain_figures=True)
def vector(rng: Random, collection: Collection) -> str:
    labels = [column for column in collection.fields if column.kind == "state"]
    result = [
        {
            "metric": {
                "__name__": _metric(collection, column),
                "job": "exporter",
                collection.naming(collection.identity.words): collection.name(row),
            }
            | {collection.naming(c.words): str(row[c]) for c in labels},
            "value": [1_790_000_000.5, _figure(row[column])],
        }
        for column in collection.fields
        if column.kind == "number"
        for row in collection.rows
    ]
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}}, indent=rng.choice((None, 2))
    )


@shape("metrics matrix", asks=("extreme",), width=(4, 4), plain_figures=True)
def matrix(rng: Random, collection: Collection) -> str:
    """Each series runs around a level below the record's figure and touches it once."""
    column = next(column for column in collection.fields if column.kind == "number")
    result = []
    for row in collection.rows[: max(12, len(collection.rows) // 12)]:
        top = as_number(row[column])
        points: list[list[Value]] = []
        peak = rng.randint(8, 50)
        for step in range(60):
            value = top if step == peak else round(top * rng.uniform(0.55, 0.8), 3)
            points.append([1_790_000_000 + step * 60, _figure(row[column]) if step == peak else str(value)])
        result.append(
            {"metric": {"__name__": _metric(collection, column), "instance": collection.name(row)}, "values": points}
        )
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


# --- Formats without a name


@shape("arrows")
def arrows(rng: Random, collection: Collection) -> str:
    arrow = rng.choice((" -> ", " => ", " .. ", " :: "))
    return "\n".join(
        "\n".join(
            [
                f"{collection.noun} {collection.name(row)}",
                *(f"    {collection.label(column)}{arrow}{row[column]}" for column in collection.known(row)),
            ]
        )
        for row in collection.rows
    )


@shape("own delimiter")
def own_delimiter(rng: Random, collection: Collection) -> str:
    mark = rng.choice(("~|~", " ;; ", "^", " ¦ ", "||"))
    return "\n".join(mark.join(line) for line in cells(collection))


@shape("bracketed records")
def bracketed(rng: Random, collection: Collection) -> str:
    return "\n".join(
        f"#{index} <{collection.name(row)}> ["
        + "; ".join(f"{collection.label(column)}: {row[column]}" for column in collection.known(row))
        + "]"
        for index, row in enumerate(collection.rows, 1)
    )


@shape("sentences", width=(3, 6))
def sentences(rng: Random, collection: Collection) -> str:
    lines = []
    for row in collection.rows:
        facts = [
            f"{'its' if rng.random() < 0.5 else 'the'} {column.words} is {row[column]}"
            for column in collection.known(row)
        ]
        lines.append(
            f"{collection.noun.capitalize()} {collection.name(row)}: " + ", ".join(facts[:-1]) + f" and {facts[-1]}."
        )
    paragraphs = [" ".join(lines[at : at + 5]) for at in range(0, len(lines), 5)]
    return "\n\n".join(paragraphs)


@shape("bullets")
def bullets(rng: Random, collection: Collection) -> str:
    mark = rng.choice("-*•")
    return "\n".join(
        "\n".join(
            [
                f"{mark} {collection.name(row)}",
                *(f"  {mark} {collection.label(column)}: {row[column]}" for column in collection.known(row)),
            ]
        )
        for row in collection.rows
    )


# --- Once held out, studied since


@shape("expanded query result")
def expanded(rng: Random, collection: Collection) -> str:
    width = max(len(collection.label(column)) for column in collection.columns)
    return "\n".join(
        f"-[ RECORD {index} ]{'-' * 30}\n"
        + "\n".join(f"{collection.label(column):<{width}} | {row[column]}" for column in collection.columns)
        for index, row in enumerate(collection.rows, 1)
    )


@shape("html table")
def html_table(rng: Random, collection: Collection) -> str:
    header, *rows = cells(collection)
    lines = [
        "<table>",
        "<thead><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in header) + "</tr></thead>",
        "<tbody>",
    ]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</tbody>", "</table>"])


@shape("tree with branches")
def branches(rng: Random, collection: Collection) -> str:
    lines = [collection.plural]
    for row in collection.rows:
        lines.append(f"├── {collection.name(row)}")
        *most, last = collection.fields
        lines += [f"│   ├── {collection.label(column)}: {row[column]}" for column in most]
        lines.append(f"│   └── {collection.label(last)}: {row[last]}")
    return "\n".join([*lines, "└── (end)"])


@shape("yaml, cut at both ends")
def yaml_cut(rng: Random, collection: Collection) -> str:
    lines = []
    for row in collection.rows:
        lines.append(f"    - {collection.label(collection.identity)}: {collection.name(row)}")
        lines += [f"      {collection.label(column)}: {row[column]}" for column in collection.known(row)]
    text = "\n".join(lines)
    return text[int(len(text) * rng.uniform(0.02, 0.1)) : int(len(text) * rng.uniform(0.9, 0.98))]


# --- Cut, wrapped, several in one


@shape("json, cut at the end")
def json_cut(rng: Random, collection: Collection) -> str:
    text = json.dumps({"items": [nested(collection, row) for row in collection.rows]}, indent=rng.choice((None, 2)))
    return text[: int(len(text) * rng.uniform(0.88, 0.99))]


@shape("json, cut at both ends")
def json_cut_twice(rng: Random, collection: Collection) -> str:
    text = json.dumps({"items": [flat(collection, row) for row in collection.rows]}, indent=rng.choice((None, 2)))
    return text[int(len(text) * rng.uniform(0.01, 0.1)) : int(len(text) * rng.uniform(0.9, 0.99))]


@shape("table in a sentence", width=(3, 6), styles=NO_BLANKS)
def table_in_sentence(rng: Random, collection: Collection) -> str:
    body = "\n".join(aligned(cells(collection), gap=2))
    before = f"I ran the listing twice. This is the second run, over all {collection.plural}."
    return f"{before}\n\n```\n{body}\n```\n\nLet me know if you need the first one too."
