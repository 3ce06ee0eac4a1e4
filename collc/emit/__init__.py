"""Writers of files for runtimes, one format per module."""
