"""`collc fallback`: the plans that are ready for a failure."""
