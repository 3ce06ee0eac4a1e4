"""Networks of namespaces and rate-limited links on one machine, on which programs run and are measured."""
