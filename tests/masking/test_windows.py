"""Where the finders look, and what they may pass over: bounded work that loses nothing."""

from bench.secrets.cases import plain_texts, positives
from tersely.masking import normalise, search, structures
from tersely.masking.patterns import Pattern, Places
from tersely.masking.windows import _SIGNS, NameWindows

SIGNED = {
    "header": search._SCHEMES,
    "key": search._KEY_SIGN,
    "rows": structures._ROWS,
    "link": search._SECRET_LINK,
    "store": search._STORED,
    "pair": search._PAIR,
    "dsn": search._DSN,
    "mailbox": search._MAILBOX,
    "heading": structures._HEADER,
    "foreign": normalise._LATIN_NAME,
}


def test_a_pattern_that_is_passed_over_without_its_sign_never_matches_without_it() -> None:
    cases = [case.text for case in positives(17)] + [case.text for case in plain_texts(17)]
    texts = {text.encode("utf-8", "surrogatepass") for text in cases}
    texts |= {b"Authorization: Bearer qT8vR2mZ5xW9bK4n", b"bob@mail.example.org:Sommer-Wiese-81\n"}
    seen: set[str] = set()
    commands: set[int] = set()
    for text in texts:
        windows = NameWindows(text)
        for sign, pattern in SIGNED.items():
            if pattern.search(text):
                assert windows.has_sign(sign), (sign, text)
                seen.add(sign)
        if search._ANY_COMMAND.search(text):
            present = search._command_signs().found(text)
            matching = {number for number, command in enumerate(search._COMMANDS) if command.search(text)}
            assert matching <= present, text
            commands |= matching
    assert seen == SIGNED.keys() == _SIGNS.keys() and len(commands) > 20


def test_the_sign_of_a_command_is_its_program_and_none_where_there_are_alternatives() -> None:
    assert search._sign_of(r"\b(?:sqlplus|rman)\b[^\n|;]*?[ \t][\w$#]+/([^\s@/]+)@") == r"\b(?:sqlplus|rman)\b"
    assert search._sign_of(r"a[ \t]+(b)|c[ \t]+(d)") == ""


class Counting(Pattern):
    """Counts the bytes that it may have read."""

    read = 0

    def search(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        places = super().search(text, start, end)
        self.read += (places[0][1] if places else len(text) if end is None else end) - start
        return places


def test_matches_that_reach_to_the_end_of_a_text_are_not_read_again_and_again() -> None:
    text = b"<" * 100_000
    pattern = Counting(r"<<<\S+")
    windows = NameWindows(text, pattern)
    assert windows.size == len(text) and pattern.read < 40 * len(text), "200 times before"


def test_a_match_after_a_very_long_one_is_found_wherever_it_begins() -> None:
    for distance in (16_000, 16_384, 20_000, 40_000):
        text = b"<<<" + b"a" * 5_000 + b" " * distance + b"<<<b" + b" " * 9_000
        windows = NameWindows(text, Pattern(r"<<<\S+"))
        assert windows.search(Pattern("<<<b"), 0) is not None, distance
