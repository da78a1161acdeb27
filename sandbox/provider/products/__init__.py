"""One file for each product: the platform's rules, defaults and computed outputs of the types we use."""
