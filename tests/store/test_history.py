"""Searching verdicts: English words match by their stem, those of other languages as whole words."""

from datetime import UTC, datetime

import pytest

from tersely.events.log import end_session
from tersely.store import history
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tests.fakes.begun import begun

GERMAN = "Die Festplatte von kasse-1 ist voll: Protokolle werden nicht gelöscht."
RUSSIAN = "Диск сервера оплаты переполнен"
ENGLISH = "The disk of checkout-1 filled with logs"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Festplatte voll", [GERMAN]),
        ("GELÖSCHT", [GERMAN]),
        ("диск оплаты", [RUSSIAN]),
        ("filling disks", [ENGLISH]),
        ("Festplatten", []),
        ("переполнены", []),
    ],
)
async def test_words_of_any_language_are_found_and_stems_of_english_ones(
    database: Database, words: str, found: list[str]
) -> None:
    now = datetime.now(UTC)
    for cause in (GERMAN, RUSSIAN, ENGLISH):
        session_id = await begun(database, now=now, title="An alert")
        async with database.transaction() as db:
            ending = SessionEnd(status="completed", analysis="x", verdict={"cause": cause, "summary": cause})
            await end_session(db, session_id, 1, ending, now=now)
    async with database.reading() as db:
        matches = await history.search_verdicts(db, words)
    assert [one.session.verdict["cause"] for one in matches if one.session.verdict] == found
