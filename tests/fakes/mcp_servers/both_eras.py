"""Supports both eras of the protocol, as servers made with the SDK do; a process speaks one of them at a time."""

import os

from fastmcp import FastMCP

server: FastMCP[None] = FastMCP("both")


@server.tool
def pid() -> str:
    return str(os.getpid())


if __name__ == "__main__":
    server.run(transport="stdio", show_banner=False)
