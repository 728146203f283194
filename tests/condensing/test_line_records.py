"""Blocks that open alike: what identifies a block is shown with every line of it."""

import random
import re

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import line_records
from tersely.condensing.structural import condense_structurally
from tersely.condensing.units import Reading
from tersely.shapes.line_records import opening_of


def _reading(text: str, focus: str, budget: int) -> Reading:
    reading = line_records.read(text, Focus.parse(focus), budget)
    assert reading is not None
    return reading


def _condensed(text: str, focus: str = "", budget: int = 300) -> str:
    return pack(_reading(text, focus, budget), budget, focus=Focus.parse(focus)).text


def _hash(seed: int) -> str:
    return f"{random.Random(seed).getrandbits(160):040x}"


def _commit(at: int, title: str, body: str = "") -> str:
    more = f"    \n    {body}\n" if body else ""
    return (
        f"commit {_hash(at)}\nAuthor: Baker {chr(65 + at % 7)} <baker{at % 7}@oven.example>\n"
        f"Date:   Mon May {1 + at % 28} 1{at % 10}:00:00 2024 +0200\n\n    {title}\n{more}\n"
    )


def _log(count: int = 120) -> str:
    commits = [_commit(at, f"Knead the dough of batch {at}", f"It rests for {at} minutes.") for at in range(count)]
    commits[70] = _commit(70, "Replace the hinge of the lid", "The old hinge squeaked.")
    return "".join(commits)


def _issues(count: int = 60) -> str:
    return "\n".join(
        f">> Issue: [B{100 + at % 9}:check] Use of something unsafe was detected here and it should be replaced.\n"
        f"   Severity: {'High' if at == 37 else 'Low'}   Confidence: High\n"
        f"   Location: app/mod{at}.py:{10 + at}:4\n{10 + at}\tx = eval(data{at})\n---------------"
        for at in range(count)
    )


def _threads(count: int = 30) -> str:
    return "\n\n".join(
        f"goroutine {at} [{'syscall' if at == 11 else 'select'}]:\nmain.serve(0xc00{at:04x})\n\t/oven/serve.go:{at} +0x1f"
        for at in range(count)
    )


def test_a_commit_that_is_found_keeps_its_hash_and_author() -> None:
    shown = _condensed(_log(), "Who repaired the hinge?")

    assert f"commit {_hash(70)[:12]}" in shown
    assert "Author: Baker A <baker0@oven.example>" in shown
    assert "Replace the hinge of the lid" in shown


def test_a_finding_keeps_its_place() -> None:
    shown = condense_structurally(_issues(), 400, "Which findings are of high severity?").text

    assert "Severity: High " in shown
    assert "Location: app/mod37.py:47:4" in shown
    assert "menus and links" not in shown


def test_the_openings_are_an_index_if_they_are_affordable() -> None:
    shown = _condensed(_threads(), "", 900)

    assert all(f"goroutine {at} [" in shown for at in range(30))


def test_groups_of_openings_are_counted() -> None:
    head = _reading(_threads(), "", 300).head

    assert head == "[30 blocks: goroutine … [select]: ×29, goroutine … [syscall]: ×1]"


def test_superlatives_rank_blocks() -> None:
    commits = [
        _commit(at, f"Batch {at}") + f" oven.c | {at} +-\n {at % 40 + 1} files changed, {at} insertions(+)\n\n"
        for at in range(100)
    ]
    commits[33] = _commit(33, "Rename the oven") + " a.c | 2 +-\n 212 files changed, 9 insertions(+)\n\n"

    shown = _condensed("".join(commits), "Which commit changed the most files?", 200)

    assert "212 files changed" in shown
    assert _hash(33)[:12] in shown


def test_a_line_that_all_blocks_share_is_stated_once() -> None:
    text = "".join(_commit(7, f"Step {at}").replace(_hash(7), _hash(at)) for at in range(50))

    shown = _condensed(text, "step")

    assert shown.count("Author:") == 1
    assert "Author: Baker A <baker0@oven.example> [in 50 of 50 blocks]" in shown


def test_every_shown_line_is_a_line_of_the_text() -> None:
    for text in (_log(), _issues(), _threads()):
        source = {line.strip() for line in text.split("\n")}
        for unit in filter(lambda unit: unit.count, _reading(text, "hinge high syscall", 400).units):
            for line in re.sub(r" \[opens \d+ blocks\]$", "", unit.text).split("\n"):
                assert any(
                    line.strip().rstrip("…") in one for one in ([line.strip()] if line.strip() in source else source)
                )


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"2024-05-01 10:00:{at % 60:02d} INFO batch {at} done\n  detail {at}" for at in range(60)),
        "\n\n".join(f"def bake_{at}(oven):\n    oven.heat({at})\n    return oven" for at in range(40)),
        "\n\n".join(f"## Step {at}\n\nKnead the dough.\nLet it rest." for at in range(30)),
        "\n\n".join(f"Name: oven-{at}\nStatus: hot\nLid: closed" for at in range(30)),
        "\n".join(f"oven-{at}   Running   {at}m" for at in range(60)),
        "paths:\n" + "\n".join(f'  "/ovens/{{id}}/lid{at}":\n    get:\n      summary: lid {at}' for at in range(60)),
    ],
    ids=["log", "code", "markdown", "fields", "table", "yaml"],
)
def test_other_kinds_are_left_to_their_readers(text: str) -> None:
    assert kind_of(text) != "records"


def test_hostile_texts_are_read_in_time() -> None:
    for text in ("x" * 200_000, "commit a\n" * 50_000, "\n\n".join(["commit " + "f" * 5_000] * 200), "> \n" * 9_000):
        reading = line_records.read(text, Focus.parse("f"), 200)
        assert reading is None or pack(reading, 200).tokens <= 200


@pytest.mark.parametrize("graph", ["", "* ", "| * "])
def test_commits_of_one_line_are_never_joined(graph: str) -> None:
    lines = [f"{graph}{_hash(at)[:7]} oven: knead the dough of batch {at}" for at in range(300)]
    shown = condense_structurally("\n".join(lines), 200, "Which commits touched batch 77 of the oven?").text

    assert lines[77] in shown.split("\n")
    assert all(line in lines or line.startswith(("…", "[")) for line in shown.split("\n"))


def test_a_history_with_drawn_branches_is_read_like_one_without() -> None:
    drawn = "\n".join(
        ("* " if line.startswith("commit") else "| ") + line if line else "|" for line in _log().split("\n")
    )
    shown = condense_structurally(drawn, 300, "Who repaired the hinge?").text

    assert f"commit {_hash(70)[:12]}" in shown
    assert "Author: Baker A <baker0@oven.example>" in shown


def test_paragraphs_of_a_block_stay_with_its_opening() -> None:
    blocks = [
        f"{_hash(at)[:8]} Baker {at % 7} 2024-05-01\n    Batch {at}\n\nIt rests {at} hours.\n" for at in range(80)
    ]
    blocks[40] = f"{_hash(40)[:8]} Baker Z 2024-05-02\n    Lid\n\nFirst.\n\nThe hinge squeaks.\n"
    shown = _condensed("\n".join(blocks), "hinge", 120)

    assert "The hinge squeaks." in shown
    assert f"{_hash(40)[:8]} Baker Z" in shown


def test_the_largest_of_listed_files_is_found() -> None:
    folders = [
        f"./part{at}:\ntotal {at}\n"
        + "".join(f"-rw-r--r-- 1 root root {7 * at + of:>6} Nov 15 14:43 crumb{of}.c\n" for of in range(20))
        for at in range(30)
    ]
    folders[17] += "-rw-r--r-- 1 root root 582021 Nov 15 14:43 hinge.c\n"

    shown = _condensed("\n".join(folders), "Which file is the largest?", 200)

    assert "./part17:" in shown
    assert "582021 Nov 15 14:43 hinge.c" in shown


@pytest.mark.parametrize("sign", [" :: ", " ........ ", ": ", "  "])
def test_fields_of_blocks_are_compared_whatever_separates_them(sign: str) -> None:
    blocks = [
        f"telescope {_hash(at)[:8]}\n    QUALITY{sign}fair\n    EXPOSURE{sign}{100 + at % 50}s\n    REMARK{sign}none"
        for at in range(60)
    ]
    blocks[23] = blocks[23].replace("fair", "cracked")
    blocks[41] = blocks[41].replace(f"{100 + 41}s", "977s")
    text = "\n\n".join(blocks)

    odd = _condensed(text, "Is anything unusual here?", 150)
    longest = _condensed(text, "Which one has the longest exposure?", 150)

    assert _hash(23)[:8] in odd
    assert "cracked" in odd
    assert _hash(41)[:8] in longest
    assert "977s" in longest


def test_blocks_that_open_alike_are_named_by_the_field_that_differs() -> None:
    blocks = [
        f"valve report 7.4 (local build)\n=== SECTION ===\nModel:      V16\nValve node: /dev/valve{at}\n"
        f"Result:     {'LEAKS' if at == 5 else 'tight'}\n 12 drops_lost   0x03  {80 + at} - {900 if at == 2 else 0}\n\n"
        for at in range(8)
    ]
    shown = condense_structurally("".join(blocks), 150, "Which valve leaks?")
    assert shown.kind == "records"
    lines = [line.strip() for line in shown.text.split("\n")]
    assert lines.index("Result:     LEAKS") - lines.index("Valve node: /dev/valve5") == 1
    assert "valve report 7.4 (local build) [in 8 of 8 blocks]" in lines, "The opening says nothing about a block."
    # A row whose number differs from that of the other blocks comes before their equal rows.
    drops = condense_structurally("".join(blocks), 150, "Where are drops lost?").text
    assert "/dev/valve2" in drops
    assert "- 900" in drops


def test_rows_with_labels_at_the_end_of_blocks_are_ranked() -> None:
    """A minority of the lines has labelled values: `web01 : ok=11 changed=4`."""
    tasks = "".join(
        f"TASK [step {task}] ****\n" + "".join(f"ok: [host{at}]\n" for at in range(12)) + "\n" for task in range(9)
    )
    recap = "RECAP ****\n" + "".join(
        f"host{at} : ok={9 + at % 3} changed={9 if at == 7 else at % 3} failed=0\n" for at in range(12)
    )
    text = condense_structurally(tasks + recap, 120, "Which host has the most changes?").text
    assert "host7 : ok=10 changed=9 failed=0" in text


def test_lines_inside_of_blocks_open_none() -> None:
    """Each block has one line that begins with `inet6`; the line in the margin opens it."""
    links = "".join(
        f"{at}: {'wire' if at == 9 else 'veth'}{at}: <UP> mtu 1500 state {'DOWN' if at == 9 else 'UP'} group default\n"
        f"    link/ether 8b:d5:f9:83:29:{at:02}\n    inet 172.17.{at}.88/16 scope global\n       valid forever\n"
        f"    inet6 fe80::b0e:{at}/64\n       valid forever\n"
        for at in range(1, 40)
    )
    assert opening_of(links.split("\n")) is None
    assert "9: wire9: <UP> mtu 1500 state DOWN" in condense_structurally(links, 200, "Which interface is down?").text


def test_an_opening_of_some_blocks_is_no_opening() -> None:
    """One name recurs in the margin, but most names there are others."""
    names = ("Oven", "Dough", "Crust", "Yeast", "Salt", "Flour", "Crumb", "Sieve")
    text = "".join(f"{names[at % 8]}Service{at}\n  returns the loaf\n  keeps the time\n" for at in range(60))
    assert opening_of(text.split("\n")) is None


def test_a_line_that_few_blocks_have_is_shown_before_those_of_all() -> None:
    blocks = [
        f'Table "public.item{at}"\nColumns:\n    id | bigint | not null\n    note | text |\nIndexes:\n'
        f'    "item{at}_pkey" PRIMARY KEY, btree (id)\n'
        + ('    "item_words" gin (note) WHERE open\n' if at == 17 else "")
        + f'Keys:\n    "item{at}_owner" FOREIGN KEY (owner)\n\n'
        for at in range(24)
    ]
    text = condense_structurally("".join(blocks), 250, "Which table has another index than the others?").text
    assert text.index('Table "public.item17"') < text.index('"item_words" gin (note) WHERE open')


def test_openings_that_are_equal_are_shown_once_with_their_number() -> None:
    blocks = [
        f">> Issue: [B{at % 9}:check] Use of something unsafe.\n   Severity: {'High' if at == 37 else 'Low'}\n"
        f"   Location: app/mod{at}.py:{at}:4\n{at}\tx = eval(data{at})\n-------"
        for at in range(60)
    ]
    text = condense_structurally("\n".join(blocks), 300, "").text

    assert ">> Issue: [B0:check] Use of something unsafe. [opens 7 blocks]" in text
    assert "app/mod37.py:37:4" in text
    lines = text.split("\n")
    bare = [at for at, line in enumerate(lines) if line.endswith("unsafe.")]
    assert all(lines[at + 1].startswith("   ") for at in bare), "an opening alone says nothing that is not counted"


def test_lines_at_the_end_that_begin_unlike_all_others_close_the_text() -> None:
    lines = []
    for number in range(60):
        lines += [f"Collecting loaf{number}>=1.{number}", f"  Downloading loaf{number}-1.{number}.whl ({number} kB)"]
    names = " ".join(f"loaf{number}-1.{number}" for number in range(60))
    lines += [f"Installing collected packages: {names.replace('-', ' ')}", f"Successfully installed {names}"]
    assert "Successfully installed loaf0-1.0" in condense_structurally("\n".join(lines), 500).text


def test_fields_beside_an_odd_one_come_before_the_openings_of_other_blocks() -> None:
    blocks = [
        f"Handle 0x{64 + at:04X}, DMI type 17, 92 bytes\nMemory Device\n\tArray Handle: 0x003D\n\tTotal Width: 72 bits\n"
        f"\tSize: {'No Module Installed' if at == 5 else '32 GB'}\n\tLocator: DIMM_{chr(65 + at)}\n"
        f"\tBank Locator: NODE {at // 8}\n\tType: DDR4\n\tManufacturer: {'Samsung' if at != 11 else 'Micron'}\n"
        f"\tSerial Number: {at * 7919 + 40961:08X}\n"
        for at in range(16)
    ]
    text = condense_structurally("\n".join(blocks), 240, "Which slot is empty?").text
    assert "DIMM_F" in text[text.index("No Module Installed") :]


def test_a_closing_total_is_kept_and_the_table_below_it_is_no_block() -> None:
    errors = "".join(
        f"app/{'oven' if at % 3 else 'tray'}.ts:{at}:5 - error TS2304: Cannot find name 'lid{at}'.\n\n"
        f"{at}   lid{at}.close();\n     ~~~~\n\n"
        for at in range(1, 201)
    )
    text = f"{errors}\nFound 200 errors in 2 files.\n\nErrors  Files\n   134  app/oven.ts:1\n    66  app/tray.ts:3\n"
    for focus in ("", "Which lids of the tray are unknown?"):
        shown = _condensed(text, focus, 400)
        assert "Found 200 errors in 2 files." in shown
        assert "201 blocks" not in shown
