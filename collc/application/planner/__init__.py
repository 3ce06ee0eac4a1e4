"""The planner: schedules on request, of which each class under the symmetries of a network is planned once."""
