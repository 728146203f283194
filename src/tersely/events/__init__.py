"""What viewers are told while a session runs, and how it reaches them. Stored first, then told."""
