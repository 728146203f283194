"""Several texts within one budget."""

import pytest

from tersely.errors import InputError
from tersely.pipeline.core import condense
from tersely.pipeline.several import condense_several, shares_of
from tersely.text.tokens import O200K

TEXTS = [
    ("app.log", "".join(f"2026-11-15T10:00:00Z INFO api GET /cart/{n} 200\n" for n in range(500))),
    ("short.txt", "all is well\n"),
    ("数.json", '{"items": [' + ",".join(f'{{"id": {n}, "state": "ok 🙂"}}' for n in range(300)) + "]}"),
]


@pytest.mark.parametrize("budget", [90, 137, 400, 100_000])
def test_the_whole_fits_the_budget_and_a_small_text_is_whole(budget: int) -> None:
    done = condense_several(TEXTS, budget, lambda text, tokens: condense(text, tokens))
    assert done.tokens_after == O200K.count(done.text) <= budget
    assert [name for name, _ in done.parts] == [name for name, _ in TEXTS]
    assert "==> short.txt <==\nall is well\n==> 数.json <==\n" in done.text
    assert done.tokens_before == sum(O200K.count(text) for _, text in TEXTS)


def test_too_little_for_so_many_says_how_much_is_needed() -> None:
    with pytest.raises(InputError, match=r"30 is too small for 3 files: at least \d+ tokens"):
        condense_several(TEXTS, 30, lambda text, tokens: condense(text, tokens))


def test_small_texts_get_their_size_and_the_others_equal_parts() -> None:
    assert shares_of([10, 1000, 500], 210) == [10, 100, 100]
    assert shares_of([10, 20], 100) == [10, 20]
