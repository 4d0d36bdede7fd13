"""The scheduler: event handlers, the scheduling queue, attempts, and the dispatch of their writes."""
