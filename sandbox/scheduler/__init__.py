"""Google Cloud Scheduler on this machine: the program's HTTP jobs, called when they are due."""
