"""`collc topology`: what a network is made of."""
