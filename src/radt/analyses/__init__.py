"""The analyses of the paper: what an agent looks at, where it goes, when it gets stuck, and why.

Each lives through the trials of a run again, with somebody looking on, and leaves a picture, the
numbers behind it and a verdict in words.
"""
