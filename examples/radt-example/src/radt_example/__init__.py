"""An environment, an encoder, an embedder, an index and a method, plugged into radt."""
