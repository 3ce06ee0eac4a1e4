"""What collc takes and reaches, measured: `python -m benchmarks`."""
