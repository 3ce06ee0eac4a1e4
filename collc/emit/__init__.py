"""Writers, one format a file."""
