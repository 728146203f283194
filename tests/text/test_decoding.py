"""Bytes that are text in some encoding, and bytes that are not."""

import gzip
import random

import pytest

from tersely.errors import InputError
from tersely.text.decoding import decoded

GERMAN = "Die Verbindung wurde getrennt: Zeitüberschreitung nach 30 Sekunden, Größe 5 µs.\n" * 20


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_text_is_read_in_the_encoding_it_has(encoding: str) -> None:
    assert decoded(GERMAN.encode(encoding)) == GERMAN


@pytest.mark.parametrize(
    "text", ["", "a", "ok\n", "\x1b[31mred\x1b[0m\r\n", "日本語のログ\n" * 50, "naïve", "PK", "ID3 tags\n"]
)
def test_text_in_utf_8_stays_as_it_is(text: str) -> None:
    assert decoded(text.encode()) == text


def test_single_broken_characters_do_not_change_the_encoding() -> None:
    data = ("日本語のログ\n" * 50).encode()
    assert decoded(data[1:]).count("語") == 50
    assert decoded(data + b"\xe6").startswith("日本語")
    assert decoded("Größe\n".encode("cp1252")) == "Größe\n"
    assert decoded(b"caf\xe9 and more plain text\n").startswith("caf")


def test_binary_data_is_named_with_its_size() -> None:
    noise = random.Random(1).randbytes(5_000)
    for data, name in (
        (gzip.compress(noise), "gzip"),
        (b"\x89PNG\r\n\x1a\n" + noise, "PNG image"),
        (noise, "binary data"),
    ):
        with pytest.raises(InputError, match=f"{name}.*{len(data):,} bytes"):
            decoded(data)


@pytest.mark.parametrize(
    ("line", "encoding"),
    [("接続が切断されました。再接続しています。\n", "shift_jis"), ("Соединение с базой данных потеряно\n", "cp1251")],
)
def test_other_encodings_are_refused_in_a_sentence_that_guesses_none(line: str, encoding: str) -> None:
    data = (line * 40).encode(encoding)
    with pytest.raises(InputError, match=f"input of {len(data):,} bytes .* iconv -f ENCODING -t UTF-8") as refused:
        decoded(data)
    assert "SHIFT" not in str(refused.value).upper()


def test_any_bytes_are_decoded_or_refused() -> None:
    rng = random.Random(7)
    for size in range(200):
        data = bytes(rng.choice((rng.randrange(256), 65, 10)) for _ in range(size))
        try:
            text = decoded(data)
        except InputError as refused:
            text = str(refused)
        assert isinstance(text, str)
