"""Google's identity on this machine: signing keys, tokens, the metadata server, and who holds which grant."""
