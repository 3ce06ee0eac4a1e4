"""collc: schedules for collective communication, proved correct and written for real runtimes."""
