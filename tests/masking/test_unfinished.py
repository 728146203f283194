"""Secrets of several lines: masked as a whole, and held back by streams until they are whole."""

import pytest

from tersely.agent.asking import MaskedStream
from tersely.masking.mask import Masker
from tersely.masking.unfinished import ends_inside_secret
from tests.fakes.recorder import TimelineEvent

MASKER = Masker(key=b"tests")
PARTS = ("Qm4xTr8zWq", "Lw2kPz77Vb", "end9xRt5Ny")
SHOWN = {
    "double quotes": 'password: "{0}\n  {1}\n  {2}"\nuser: app\nmore\n',
    "single quotes": "client_secret: '{0}\n  {1}\n  {2}'\nuser: app\nmore\n",
    "a string with line breaks": '{{"password": "{0}\n{1}\n{2}", "user": "app"}}\nmore\n',
    "an argument": '$ create --from-literal=password="{0}\n{1}\n{2}"\nmore\n',
    "a block": "db_password: |\n  {0}\n  {1}\n  {2}\nuser: app\nmore\n",
    "a folded block": "token: >-\n  {0}\n  {1}\n  {2}\nuser: app\nmore\n",
    "three quotes": 'PASSWORD = """\n{0}\n{1}\n{2}\n"""\nuser = 1\nmore\n',
    "a here-document": "DB_PASSWORD=$(cat <<EOF\n{0}\n{1}\n{2}\nEOF\n)\nmore\n",
    "a command's input": "passwd --stdin root <<'END'\n{0}\n{1}\n{2}\nEND\nmore\n",
}


@pytest.mark.parametrize("shape", SHOWN)
def test_no_line_of_a_secret_is_left(shape: str) -> None:
    masked = MASKER.mask(SHOWN[shape].format(*PARTS))
    assert not any(part in masked for part in PARTS) and masked.endswith("\nmore\n")
    assert MASKER.mask(masked) == masked


@pytest.mark.parametrize("shape", SHOWN)
def test_a_stream_waits_for_the_end_of_a_secret_and_no_longer(shape: str) -> None:
    held, shown = "before\n", []
    for line in SHOWN[shape].format(*PARTS).splitlines(keepends=True):
        held += line
        if not ends_inside_secret(held.encode()):
            shown.append(MASKER.mask(held))
            held = ""
    assert not held and not any(part in "".join(shown) for part in PARTS)
    assert shown[-1] == "more\n", "what follows does not wait"


@pytest.mark.parametrize(
    "text",
    [
        'password: "Qm4xTr8zWq"\n',
        'password: "Qm4xTr8zWq\nuser: app\n',
        'password="Qm4xTr8zWq\n{"level": "info"}\n',
        "the key is lost, he said: 'find it'\n",
        'name: "a\n  b\n',
        "mysql <<EOF\nSELECT 1;\n",
        "token: |\n  a\nuser: b\n",
        'password: "' + "word word\n" * 40,
    ],
)
def test_nothing_else_waits(text: str) -> None:
    assert not ends_inside_secret(text.encode())


@pytest.mark.parametrize("shape", SHOWN)
def test_viewers_of_a_growing_answer_never_see_a_part_of_it(shape: str) -> None:
    event = TimelineEvent("1", "llm_response")
    stream = MaskedStream(event, MASKER)
    text = "Here is what I found in the file that you asked for. " + SHOWN[shape].format(*PARTS) + "That is all. " * 9
    for at in range(0, len(text), 7):
        stream.add(text[at : at + 7])
        assert not any(part[:6] in event.streamed for part in PARTS)
    assert "That is all." in event.streamed, "what follows is shown while it grows"
