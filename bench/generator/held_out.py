"""Held-out shapes, which must not be used for tuning: their cases are printed only in one total.

The same rules as in `shapes` apply. A held-out shape that has been studied is open: move it there and add a new one.
"""

import json
from random import Random
from xml.sax.saxutils import escape

from bench.generator.records import UNKNOWN, Collection
from bench.generator.shapes import AS_KEY, NO_BLANKS, aligned, cells, flat, heading, nested, shape
from bench.generator.vocabulary import PLACES, hex_digits, pseudo_word


@shape("cards", held_out=True)
def cards(rng: Random, collection: Collection) -> str:
    """Begin, fields, end, as address books are exchanged."""
    blocks = []
    for row in collection.rows:
        fields = [f"X-{key.upper()};TYPE=text:{value}" for key, value in flat(collection, row).items()]
        blocks.append("\n".join(["BEGIN:CARD", "VERSION:4.0", *fields, "END:CARD"]))
    return "\n".join(blocks)


@shape("property list", held_out=True)
def property_list(rng: Random, collection: Collection) -> str:
    lines = ['<plist version="1.0">', "<array>"]
    for row in collection.rows:
        lines.append("  <dict>")
        for key, value in flat(collection, row).items():
            kind = "string" if isinstance(value, str) else "real"
            lines += [f"    <key>{escape(key)}</key>", f"    <{kind}>{escape(str(value))}</{kind}>"]
        lines.append("  </dict>")
    return "\n".join([*lines, "</array>", "</plist>"])


@shape("dotted leaders", held_out=True)
def dotted_leaders(rng: Random, collection: Collection) -> str:
    """Reports for people: a rule between records, dots between name and value."""
    blocks = []
    for row in collection.rows:
        facts = [f"  {column.words.capitalize() + ' ':.<32} {row[column]}" for column in collection.known(row)]
        blocks.append("\n".join([f"{collection.noun.upper()} {collection.name(row)}", *facts]))
    return ("\n" + "-" * 60 + "\n").join(blocks)


@shape("numbered outline", held_out=True)
def outline(rng: Random, collection: Collection) -> str:
    lines = []
    for number, row in enumerate(collection.rows, 1):
        lines.append(f"{number}. {collection.name(row)}")
        lines += [
            f"   {number}.{part} {collection.label(column)} – {row[column]}"
            for part, column in enumerate(collection.known(row), 1)
        ]
    return "\n".join(lines)


@shape("query strings", styles=NO_BLANKS, held_out=True)
def query_strings(rng: Random, collection: Collection) -> str:
    path = "/" + collection.noun.replace(" ", "-")
    return "\n".join(
        f"{path}?" + "&".join(f"{key}={value}".replace(" ", "+") for key, value in flat(collection, row).items())
        for row in collection.rows
    )


@shape("assignments", styles=AS_KEY, held_out=True)
def assignments(rng: Random, collection: Collection) -> str:
    """As a shell shows its variables: one assignment after the other, the name in the middle of the variable."""
    lines = []
    for index, row in enumerate(collection.rows):
        lines.append(f"declare -A item_{index}")
        lines += [
            f"item_{index}[{collection.label(column)}]={json.dumps(row[column])}"
            for column in collection.columns
            if row[column] != UNKNOWN
        ]
    return "\n".join(lines)


@shape("nested parentheses", held_out=True)
def parentheses(rng: Random, collection: Collection) -> str:
    """As a debugger prints objects: Kind(field=value, …)."""
    kind = collection.noun.title().replace(" ", "")
    return ",\n".join(
        f"{kind}(" + ", ".join(f"{key}={value!r}" for key, value in flat(collection, row).items()) + ")"
        for row in collection.rows
    )


@shape("toml tables", held_out=True)
def toml(rng: Random, collection: Collection) -> str:
    head = f"[[{collection.noun.replace(' ', '_')}]]"
    return "\n\n".join(
        head + "\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in flat(collection, row).items())
        for row in collection.rows
    )


@shape("resource blocks", styles=AS_KEY, held_out=True)
def resource_blocks(rng: Random, collection: Collection) -> str:
    kind = collection.noun.replace(" ", "_")
    blocks = []
    for row in collection.rows:
        lines = [f'resource "{kind}" "{collection.name(row)}" {{']
        lines += [f"  {collection.label(column)} = {json.dumps(row[column])}" for column in collection.known(row)]
        blocks.append("\n".join([*lines, "}"]))
    return "\n\n".join(blocks)


@shape("json, named attributes", held_out=True)
def attribute_pairs(rng: Random, collection: Collection) -> str:
    items = [
        {
            "id": collection.name(row),
            "attributes": [
                {"name": collection.label(column), "value": row[column]} for column in collection.known(row)
            ],
        }
        for row in collection.rows
    ]
    return json.dumps({"page": 1, "entities": items}, indent=rng.choice((None, 2)))


@shape("json, entities by id", styles=NO_BLANKS, held_out=True)
def entities_by_id(rng: Random, collection: Collection) -> str:
    entities = {hex_digits(rng, 8): nested(collection, row) for row in collection.rows}
    return json.dumps({"order": list(entities), "entities": entities}, indent=rng.choice((None, 1)))


@shape("json documents, one after the other", held_out=True)
def json_documents(rng: Random, collection: Collection) -> str:
    return "\n".join(json.dumps(nested(collection, row), indent=2) for row in collection.rows)


@shape("boxed table", width=(3, 7), held_out=True)
def boxed(rng: Random, collection: Collection) -> str:
    table = cells(collection)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "│ " + " │ ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " │" for row in table
    ]
    rule = ["─" * (width + 2) for width in widths]
    return "\n".join(
        ["┌" + "┬".join(rule) + "┐", lines[0], "├" + "┼".join(rule) + "┤", *lines[1:], "└" + "┴".join(rule) + "┘"]
    )


@shape("plain table, rules of equals signs", width=(3, 6), held_out=True)
def ruled(rng: Random, collection: Collection) -> str:
    table = cells(collection)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    rule = "  ".join("=" * width for width in widths)
    header, *rows = aligned(table, gap=2)
    return "\n".join([rule, header, rule, *rows, rule])


@shape("table with a preamble", width=(3, 6), styles=NO_BLANKS, held_out=True)
def preamble(rng: Random, collection: Collection) -> str:
    top = [
        f"{pseudo_word(rng)}-ctl {rng.randint(1, 9)}.{rng.randint(0, 9)} on {rng.choice(PLACES).lower()}",
        f"Total: {len(collection.rows)} {collection.plural}",
        "",
    ]
    body = aligned([[heading(column) for column in collection.columns], *cells(collection)[1:]], gap=2)
    return "\n".join([*top, body[0], "-" * len(body[0]), *body[1:], "", "(end of listing)"])


@shape("semicolons with comments", held_out=True)
def semicolons(rng: Random, collection: Collection) -> str:
    lines = [";".join(line) for line in cells(collection)]
    return "\n".join([f"# exported {rng.choice(PLACES)}", "# encoding: utf-8", *lines, f"# {len(lines) - 1} records"])


@shape("symbolic expressions", held_out=True)
def symbolic(rng: Random, collection: Collection) -> str:
    return "\n".join(
        f'({collection.noun.replace(" ", "-")} "{collection.name(row)}"\n  '
        + "\n  ".join(f":{collection.label(column)} {json.dumps(row[column])}" for column in collection.known(row))
        + ")"
        for row in collection.rows
    )


@shape("pairs on a line", held_out=True)
def pairs(rng: Random, collection: Collection) -> str:
    return "\n".join(
        " ".join(
            f"{collection.label(column)}={json.dumps(row[column]) if ' ' in str(row[column]) else row[column]}"
            for column in collection.columns
        )
        for row in collection.rows
    )


@shape("headed lines without separators", width=(3, 5), held_out=True)
def headed_lines(rng: Random, collection: Collection) -> str:
    """A name on a line of its own, values below it in a fixed order, the names of the fields said once at the top."""
    top = f"Each entry: {', '.join(column.words for column in collection.fields)}"
    return "\n".join(
        [
            top,
            "",
            *(
                "\n".join([collection.name(row), *(f"\t{row[column]}" for column in collection.fields)])
                for row in collection.rows
            ),
        ]
    )


@shape("json string with a table inside", width=(3, 5), styles=NO_BLANKS, held_out=True)
def table_in_json(rng: Random, collection: Collection) -> str:
    return json.dumps({"status": "ok", "stdout": "\n".join(aligned(cells(collection), gap=2)), "stderr": "", "code": 0})


@shape("json as columns", width=(3, 5), held_out=True)
def json_columnar(rng: Random, collection: Collection) -> str:
    """One list per field; a value is found by its index."""
    return json.dumps(
        {collection.label(column): [row[column] for row in collection.rows] for column in collection.columns}
    )
