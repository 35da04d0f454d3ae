"""The network: encode, self-attention, cross-attention, action."""
