"""Run files as permutations of data among the devices of one SPMD program, for `collc.jax`. Imports no JAX."""
