"""`collc lab`: schedules that run over links which one can measure."""
