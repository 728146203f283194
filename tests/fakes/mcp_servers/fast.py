"""The honest server of `web`, made with FastMCP, on standard input and output."""

from tests.fakes.mcp_servers.web import Honest

if __name__ == "__main__":
    Honest().server.run(show_banner=False)
