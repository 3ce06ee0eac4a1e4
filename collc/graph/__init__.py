"""Graph theory on plain arrays and lists: shortest paths, reachability, matching and cuts, each in one place.

Nothing here knows networks, demands or schedules, so synthesis, verification and lowering may all use it.
"""
