"""Files for runtimes: the sizes and the kind that are fastest, and what was written."""
