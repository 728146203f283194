"""Which lines of all kept results answer a question."""

from datetime import UTC, datetime
from pathlib import Path

from tersely.masking.mask import mask
from tersely.results.kept import Origin
from tersely.results.search_all import search_results
from tests.results.test_kept import keeping

ORIGIN = Origin(server="cluster", tool="get_logs", arguments={}, called_at=datetime(2026, 11, 15, 12, tzinfo=UTC))


async def test_lines_that_differ_only_in_values_are_quoted_once(tmp_path: Path) -> None:
    text = "".join(
        f"10:00:{at % 60:02d} INFO GET /cart/{at}\n" * 5
        + f"10:00:{at % 60:02d} ERROR cannot write /spool/{at * 7_919_917:010x}.tmp: disk full\n"
        for at in range(50)
    )
    async with keeping(tmp_path) as kept:
        await kept.keep(mask(text), scope="me", origin=ORIGIN)
        await kept.keep(mask("disk of the spool: 100 % full since 09:58\n"), scope="me", origin=ORIGIN)
        found = await search_results(kept, "me", "why can nobody write to the disk?")
    quoted = [one.text for one in found.passages]
    assert len([one for one in quoted if "cannot write" in one]) == 1
    assert any("since 09:58" in one for one in quoted) and found.searched == 2
