"""The timeout rules, one function each, by what they protect: the delivery, the broker's patience, the services."""
