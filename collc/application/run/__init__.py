"""`collc run`: files executed on real data."""
