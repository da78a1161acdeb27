"""The settings of each role: read from an environment, rendered to one, refused with every fault at once."""
