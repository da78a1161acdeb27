"""The push worker: one delivery in, one answer out, and no message lost in between."""
