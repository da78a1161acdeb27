"""The executor: runs a job while its caller waits, and answers with the result or with the events as they come."""
