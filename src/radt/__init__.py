"""External memory for decision-making agents: the Retrieval-Augmented Decision Transformer."""
