"""When to decide, and what becomes of decisions: the queue, its triggers, the attempts and their writes."""
