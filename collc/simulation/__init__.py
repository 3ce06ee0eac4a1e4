"""Times and loads of a schedule on a network."""
