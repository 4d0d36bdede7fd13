"""The whole scheduler in one process with its hub: what an attempt costs where neither network nor server take part."""
