"""The sections of a stack file, one module each."""
