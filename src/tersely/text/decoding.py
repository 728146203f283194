"""Bytes of unknown origin to text: UTF-8, UTF-16, UTF-32 and Windows-1252; everything else is refused in a sentence.

text = decoded(Path("app.log").read_bytes())
"""

import codecs

from tersely.errors import InputError

SAMPLE = 200_000
"""Bytes by which binary data and the encoding are told."""

MOST_CONTROL = 0.02
"""Share of control characters above which data is binary; text has line ends, tabs and colour codes only."""

MOST_HIGH = 0.3
"""Share of bytes beyond ASCII in Windows-1252. Text in a Western language has fewer, in any other script many more."""

FEW_HIGH = 4
"""So few bytes say nothing about the script."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or Office document"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "audio"),
    (b"ID3", "audio"),
    (b"RIFF", "audio, video or an image"),
)
_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(set(range(32)) - set(b"\a\t\n\r\f\b\x1b\0"))


def decoded(data: bytes) -> str:
    """Return the text of the bytes; single broken characters are replaced.

    Raises:
        InputError: The data is binary or in an encoding that cannot be told; says which and how large it is.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    sample = data[:SAMPLE]
    for signature, name in _SIGNATURES:
        if data.startswith(signature) and not _is_plain(sample):
            raise InputError(f"The input is {name} of {len(data):,} bytes, not text.")
    if wide := _wide_encoding(sample):
        return data.decode(wide, "replace")
    control = len(sample) - len(sample.translate(None, _CONTROL))
    if control + max(0, sample.count(0) - len(sample) // 4) > MOST_CONTROL * len(sample):
        raise InputError(f"The input is binary data of {len(data):,} bytes, not text.")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _broken(data, sample)


def _is_plain(sample: bytes) -> bool:
    return sample.isascii() and len(sample.translate(None, _CONTROL + b"\0")) == len(sample)


def _wide_encoding(sample: bytes) -> str:
    """Return UTF-16 of one byte order if every other byte is mostly 0, as in text of a Western language."""
    pairs = len(sample) // 2
    if pairs < 8:
        return ""
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if sample[start::2].count(0) > 0.7 * pairs and sample[1 - start :: 2].count(0) < 0.05 * pairs:
            return encoding
    return ""


def _broken(data: bytes, sample: bytes) -> str:
    """Decode data that is not whole UTF-8: damaged UTF-8, or Windows-1252."""
    high = sum(1 for byte in sample if byte >= 0x80)
    text = data.decode("utf-8", "replace")
    bad = text[:SAMPLE].count("\ufffd")
    # Each character of UTF-8 beyond ASCII takes two bytes or more, each damage about one.
    if bad <= 1 or 4 * bad <= high:
        return text
    if high <= MOST_HIGH * len(sample) + FEW_HIGH:
        return data.decode("cp1252", "replace")
    raise InputError(
        f"The input of {len(data):,} bytes is neither UTF-8 nor UTF-16 nor Windows-1252 text. "
        "Convert it first, with the name of its encoding: iconv -f ENCODING -t UTF-8."
    )
