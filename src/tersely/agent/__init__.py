"""The agent: a model, its tools and a task, in one loop. Knows nothing of sessions, queues or viewers."""
