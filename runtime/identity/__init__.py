"""Who may call, and who asked: push tokens of Google, job tokens of our own, and the hash that a job is bound to."""
