"""One component for each file, all of one shape: arguments, class, type token, children, typed outputs."""
