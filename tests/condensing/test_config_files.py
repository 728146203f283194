"""Configuration files: verbatim directives, found by the words of their comments and of their names."""

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.readers import config_files
from tersely.condensing.structural import condense_structurally

TOPICS = (
    ("backlog-size", "128", "How many unanswered connections the kernel may hold for this socket."),
    ("flush-policy", "everysec", "Decides when written records reach the platter instead of a buffer."),
    ("evict-order", "noeviction", "What happens to new keys once no more room is left."),
    ("idle-cutoff", "300", "Clients that stay silent for this long are disconnected."),
    ("quorum-needed", "3", "Writes are refused while fewer copies than this are alive."),
)


def redis_like() -> str:
    """Long comments, a blank line between comment and directive, commented-out alternatives, ruled headings."""
    lines = ["# Example configuration.", "#", "# Every setting is explained above it, in one or two paragraphs."]
    for number in range(60):
        lines += ["", f"############ PART {number} ############", ""]
        lines += [f"# Setting {number} concerns the subsystem called unit{number}. Most people never need to touch it."]
        lines += [
            "# It is described at length in the manual, which you should consult.",
            "",
            f"unit{number}-mode normal",
        ]
        if number % 12 == 5:
            name, value, why = TOPICS[number // 12]
            lines += ["", f"# {why}", "#", "# The default is fine.", "", f"# {name} other", f"{name} {value}"]
    return "\n".join(lines) + "\n"


SYSCTL = "\n".join(
    [
        "vm.swappiness = 60",
        "net.core.rmem_max = 212992",
        "net.core.somaxconn = 4096",
        "fs.file-max = 9223372036854775807",
    ]
    + [f"net.ipv4.conf.eth{n}.{key} = {n % 2}" for n in range(40) for key in (f"arp_filter{n}", f"rp_filter{n}")]
    + [f"kernel.sched_domain.cpu{n}.flags{n} = 4655" for n in range(200)]
)
NGINX = """user www-data;
worker_processes auto;
events {
    worker_connections 768;
}
http {
    sendfile on;
    server {
        listen 80;
        server_name shop.example;
        location / {
            proxy_pass http://127.0.0.1:8080;
        }
    }
    server {
        listen 443 ssl;
        server_name pay.example;
    }
}
"""
ENV = "\n".join(f"SERVICE_{n}_URL=http://service-{n}.internal:80{n:02d}/" for n in range(40))
INI = (
    "[mysqld]\nport = 3306\nmax_connections = 151\n# bytes\nkey_buffer_size = 16M\n\n[client]\nsocket = /run/my.sock\n"
)
ALL_COMMENTED = "# Uncomment what you need.\n#\n" + "".join(
    f"# Sets the limit number {n} of this host, see its manual.\n#net.limit_{n}={n}\n\n" for n in range(30)
)


@pytest.mark.parametrize("text", [redis_like(), SYSCTL, NGINX, ENV, INI, ALL_COMMENTED])
def test_configuration_is_detected(text: str) -> None:
    assert kind_of(text) == "config"


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\nA paragraph about the thing, which goes on for a while.\n\n## Part\n\nMore words about it.\n" * 20,
        "\n".join(f"database.table.t{n}.{key}={n}" for n in range(60) for key in ("rows", "size", "owner")),
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: b\n    image: c\n" * 10,
        "\n".join(f"time=10:00:{n % 60:02d} level=info msg=done id={n}" for n in range(60)),
        "\n".join(f"pod-{n}   Running   0   5d" for n in range(60)),
        "# comment\nimport os\n# comment\ndef run():\n    # comment\n    return os.getcwd()\n" * 10,
        "\n".join(
            f'Thread {n} (Thread 0x7f{n} (LWP {n}) "w{n}"):\n'
            + "".join(f"#{at}  0x7f{n}{at} in poll (fd={n}) at poll.c:{at}\n" for at in range(5))
            for n in range(40)
        ),
    ],
)
def test_other_texts_are_not_configuration(text: str) -> None:
    assert kind_of(text) != "config"


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("budget", [300, 600])
def test_the_words_of_the_comment_find_the_directive(topic: tuple[str, str, str], budget: int) -> None:
    name, value, why = topic
    shown = condense_structurally(redis_like(), budget, " ".join(why.split()[1:-1])).text.split("\n")
    assert f"{name} {value}" in shown
    assert f"# {why}" in shown


def test_abbreviations_in_names_are_understood() -> None:
    output = condense_structurally(SYSCTL, 200, "what is the maximum receive buffer memory of a socket?").text
    assert "net.core.rmem_max = 212992" in output


def test_equal_directives_with_different_values_are_all_kept_below_their_blocks() -> None:
    text = NGINX.replace(
        "    sendfile on;\n", "    sendfile on;\n" + "".join(f"    gzip_{n} on;\n" for n in range(200))
    )
    shown = condense_structurally(text, 200, "which server_name and listen are there?").text.split("\n")
    for line in ("        listen 80;", "        listen 443 ssl;", "        server_name shop.example;", "    server {"):
        assert line in shown


def test_without_a_question_active_directives_come_before_comments() -> None:
    shown = condense_structurally(redis_like(), 400).text.split("\n")
    active = sum(line.startswith("unit") for line in shown)
    assert active > sum(line.startswith("#") for line in shown)


@pytest.mark.parametrize("text", [redis_like(), SYSCTL, NGINX, ENV, INI, ALL_COMMENTED])
@pytest.mark.parametrize("question", ["", "limit of connections", "server_name"])
def test_every_unit_is_a_line_of_the_source(text: str, question: str) -> None:
    reading = config_files.read(text, Focus.parse(question), 500)
    assert reading is not None
    lines = [line.rstrip() for line in text.split("\n")]
    for index, unit in enumerate(reading.units):
        assert unit.text == lines[unit.first - 1]
        assert unit.parent is None or unit.parent < index
    assert [unit.first for unit in reading.units] == [number for number, line in enumerate(lines, 1) if line]
