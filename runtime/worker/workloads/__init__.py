"""The kinds of work, one file each."""
