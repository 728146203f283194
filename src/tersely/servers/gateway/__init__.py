"""The gateway: a transparent proxy between any MCP client and any MCP servers that condenses long results.

`protocol` handles the clients' requests, `clients` delivers messages to clients,
`upstreams` holds the connections to servers, `catalogue` builds the list of tools,
`results` translates results into the pipeline's content and back. `serving` builds
the gateway and serves it on standard input and output, `web` over HTTP.
`tool_pins` remembers tools between runs, `counting` counts usage.
"""
