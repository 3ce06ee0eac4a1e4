"""`collc tune` and `collc calibrate`: the fastest file for each size."""
