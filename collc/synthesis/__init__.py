"""From demand to schedule: one folder per synthesizer."""
