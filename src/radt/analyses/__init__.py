"""The analyses of the paper: what an agent looks at, where it goes, when it gets stuck, and why.

Each rolls out the trials of a run again, with an observer, and leaves a picture, the
numbers behind it and a verdict in words.
"""
