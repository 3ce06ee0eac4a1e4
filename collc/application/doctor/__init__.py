"""`collc doctor`."""
