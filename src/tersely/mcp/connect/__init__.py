"""Connections to MCP servers. The only package of `tools` that knows the protocol's library.

`supervisor` keeps one connection per server alive and is what the others use;
`session` is one negotiated connection; `stdio` and `http` carry its messages and
bound them while reading; `wire` is what those two share.
"""
