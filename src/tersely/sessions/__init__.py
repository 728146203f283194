"""Investigations from alert to analysis: chains of agents, queued, durable, each with exactly one end."""
