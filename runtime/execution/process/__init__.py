"""User code in a process of its own per run, forked from a small starter and gone when its run ends."""
