"""`collc sweep`: a program with many values of its parameters."""
