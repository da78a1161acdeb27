"""Running one job: engines, the run's lease, its events, and the two callbacks that report it."""
