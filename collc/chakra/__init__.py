"""Chakra execution traces of custom collectives, as ASTRA-sim 2.0 runs them: files `PREFIX.<rank>.et`."""
