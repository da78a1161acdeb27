"""Cloud SQL and Firestore on one machine: a real PostgreSQL, and what the caller's declared situation makes of it."""
