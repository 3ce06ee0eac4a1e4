"""`collc compare`: the synthesizers and algorithms of a program next to one another."""
