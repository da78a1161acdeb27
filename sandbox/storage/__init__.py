"""Cloud Storage on this machine: objects as files. What serves them over HTTP comes with the workloads that need it."""
