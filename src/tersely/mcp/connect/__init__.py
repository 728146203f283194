"""Connections to MCP servers. The only package of `tersely.mcp` that imports the MCP SDK.

`supervisor` keeps one connection per server alive and is the interface for other
packages; `session` is one negotiated connection; `stdio` and `http` are the
transports and limit the size of messages while reading; `wire` is shared by both.
"""
