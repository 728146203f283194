"""A mail server that speaks SMTP (RFC 5321), with scripted answers."""

import asyncio
import base64
import email
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default


@dataclass
class FakeMailServer:
    account: tuple[str, str] | None = None
    answers: dict[str, str] = field(default_factory=dict)
    """By command (`MAIL`, `RCPT`, `DATA`, `.`), the line it is answered with instead."""

    hangs_up_after_content: bool = False
    received: list[tuple[list[str], EmailMessage]] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["FakeMailServer"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1

        def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")

        recipients: list[str] = []
        say("220 mail.test ESMTP")
        while line := (await reader.readline()).decode():
            command = line[:4].strip().upper()
            if command in self.answers:
                say(self.answers[command])
            elif command in ("EHLO", "HELO"):
                say("250-mail.test")
                say("250 AUTH PLAIN" if self.account else "250 8BITMIME")
            elif command == "AUTH":
                given = base64.b64decode(line.split()[2]).decode().split("\0")[1:]
                say("235 ok" if tuple(given) == self.account else "535 wrong")
            elif command == "RCPT":
                recipients.append(line.split("<")[1].split(">")[0])
                say("250 ok")
            elif command == "DATA":
                say("354 go on")
                content = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                if self.hangs_up_after_content:
                    break
                if "." in self.answers:
                    say(self.answers["."])
                    continue
                message = email.message_from_bytes(content, policy=default)
                assert isinstance(message, EmailMessage)
                self.received.append((recipients, message))
                say("250 queued")
            else:
                say("221 bye" if command == "QUIT" else "250 ok")
        writer.close()
