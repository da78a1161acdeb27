"""The API role: runs in, callbacks in, a sweep every minute."""
