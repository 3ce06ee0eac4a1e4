"""The question whether a schedule ends by a given time: asked in Booleans, and answered with a schedule."""
