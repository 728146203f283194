"""Investigations from alert to analysis: chains of agents, queued and durable, each ending exactly once."""
