"""Held-out shapes of a second round, written before the readers they test; counted in one total with the others.

The same rules as in `held_out` apply.
"""

import json
from random import Random

from bench.generator.logs import Event, clock, log_shape
from bench.generator.records import UNKNOWN, Collection
from bench.generator.shapes import AS_KEY, NO_BLANKS, flat, shape
from bench.generator.vocabulary import hex_digits, pseudo_word


@shape("directory entries", styles=AS_KEY, held_out=True)
def directory_entries(rng: Random, collection: Collection) -> str:
    """As directories are exported: a distinguished name, then attributes, a blank line between entries."""
    unit = pseudo_word(rng)
    blocks = []
    for row in collection.rows:
        lines = [f"dn: cn={collection.name(row)},ou={unit},dc=example", "objectClass: top"]
        lines += [f"{collection.label(column)}: {row[column]}" for column in collection.known(row)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


@shape("command options", styles=NO_BLANKS, held_out=True)
def command_options(rng: Random, collection: Collection) -> str:
    verb = pseudo_word(rng)
    return "\n".join(
        f"-A {collection.name(row)} -j {verb} "
        + " ".join(f"--{collection.label(column)} {row[column]}" for column in collection.known(row))
        for row in collection.rows
    )


@shape("device configuration", styles=NO_BLANKS, held_out=True)
def device_configuration(rng: Random, collection: Collection) -> str:
    """As switches print it: a line that names the thing, its settings one blank deeper, an exclamation mark."""
    kind = collection.noun.replace(" ", "-")
    blocks = []
    for row in collection.rows:
        lines = [f"{kind} {collection.name(row)}"]
        lines += [f" {collection.label(column)} {row[column]}" for column in collection.known(row)]
        blocks.append("\n".join(lines))
    return "\n!\n".join(blocks)


@shape("insert statements", held_out=True)
def insert_statements(rng: Random, collection: Collection) -> str:
    table = collection.plural.replace(" ", "_")
    columns = ", ".join(collection.label(column) for column in collection.columns)

    def literal(value: object) -> str:
        if value == UNKNOWN:
            return "NULL"
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)

    return "\n".join(
        f"INSERT INTO {table} ({columns}) VALUES ({', '.join(literal(row[column]) for column in collection.columns)});"
        for row in collection.rows
    )


@shape("messages as text", held_out=True)
def messages(rng: Random, collection: Collection) -> str:
    """As protocol buffers are printed."""
    kind = collection.noun.replace(" ", "_")
    return "\n".join(
        f"{kind} {{\n"
        + "\n".join(f"  {key}: {json.dumps(value)}" for key, value in flat(collection, row).items())
        + "\n}"
        for row in collection.rows
    )


@shape("markdown sections", held_out=True)
def markdown_sections(rng: Random, collection: Collection) -> str:
    lines = [f"# All {collection.plural}", ""]
    for row in collection.rows:
        lines += [f"## {collection.name(row)}", ""]
        lines += [f"- **{column.words.capitalize()}**: {row[column]}" for column in collection.known(row)]
        lines.append("")
    return "\n".join(lines)


@shape("transposed blocks", width=(3, 6), styles=NO_BLANKS, held_out=True)
def transposed(rng: Random, collection: Collection) -> str:
    """Fields as rows, four records side by side, block after block."""
    blocks = []
    for at in range(0, len(collection.rows), 4):
        rows = collection.rows[at : at + 4]
        table = [[collection.label(column), *(str(row[column]) for row in rows)] for column in collection.columns]
        widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
        blocks.append(
            "\n".join(
                "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                for line in table
            )
        )
    return "\n\n".join(blocks)


@shape("yaml flow maps", held_out=True)
def flow_maps(rng: Random, collection: Collection) -> str:
    return "\n".join(
        "- {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in flat(collection, row).items()) + "}"
        for row in collection.rows
    )


@shape("summary lines", width=(3, 7), styles=NO_BLANKS, held_out=True)
def summary_lines(rng: Random, collection: Collection) -> str:
    """A name, a colon, and its figures."""
    return "\n".join(
        f"{collection.name(row):<34} : "
        + "    ".join(f"{collection.label(column)}={row[column]}" for column in collection.known(row))
        for row in collection.rows
    )


@shape("json behind a prefix", held_out=True)
def json_behind_prefix(rng: Random, collection: Collection) -> str:
    pods = [f"[pod/{pseudo_word(rng)}-{hex_digits(rng, 5)}/main]" for _ in range(3)]
    return "\n".join(f"{rng.choice(pods)} {json.dumps(flat(collection, row))}" for row in collection.rows)


@log_shape("json log lines behind time and host", held_out=True)
def json_behind_host(rng: Random, events: list[Event]) -> str:
    host, app = f"{pseudo_word(rng)}-{rng.randint(1, 9)}", pseudo_word(rng)
    return "\n".join(
        f"2026-09-14T{clock(e.second)}.{rng.randint(0, 999):03d}Z {host} {app}[{rng.randint(100, 120)}]: "
        + json.dumps({"severity": e.level, "logger": e.part, "message": e.message, "seq": rng.randint(1, 99_999)})
        for e in events
    )


@log_shape("log on several lines", held_out=True)
def log_on_lines(rng: Random, events: list[Event]) -> str:
    """Time, source and level on one line, the message below."""
    return "\n".join(f"*** {clock(e.second)} ({e.part}) {e.level.lower()} ***\n    {e.message}" for e in events)


@log_shape("field lines, end mark", held_out=True)
def field_lines(rng: Random, events: list[Event]) -> str:
    return "\n".join(
        f"TimeGenerated = 2026-09-14 {clock(e.second)}\nSourceName    = {e.part}\nType          = {e.level.title()}\n"
        f"Message       = {e.message}\n--"
        for e in events
    )
