"""`collc design`: bandwidths of the dimensions of a network."""
