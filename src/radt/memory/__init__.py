"""The external memory, in the paper's order: embed, search, retrieve, reweight."""
