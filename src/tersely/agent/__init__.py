"""An agent at work: a model, its tools and a task, in one loop. Knows no sessions, no queue and nobody who watches."""
