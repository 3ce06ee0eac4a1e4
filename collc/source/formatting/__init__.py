"""The formatter of programs (`collc fmt`)."""
