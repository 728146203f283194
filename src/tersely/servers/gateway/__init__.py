"""The gateway door: any MCP client in front of any MCP servers, as if we were not there, except that results fit.

`door` speaks with clients, `upstreams` holds the servers, `offers` is what clients
are shown of them, `results` translates results into the pipeline's content and back, `serving` puts it
behind HTTP or standard input and output. `seen` remembers tools between runs,
`counting` adds up.
"""
