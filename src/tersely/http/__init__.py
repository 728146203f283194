"""What `serve`, `gateway --http` and `up` share about HTTP: listening, limits, tokens, metrics.

Knows ASGI, Starlette and uvicorn; knows nothing of MCP, routes or settings.
"""
