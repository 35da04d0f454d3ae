"""A page on this machine that shows an agent at work and why it acted: `radt view`."""
