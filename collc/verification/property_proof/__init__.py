"""The properties of a schedule as formulas over its times; they share no code with `verify_schedule`."""
