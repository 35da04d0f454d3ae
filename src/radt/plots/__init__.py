"""What a run leaves to look at: curves, moving pictures, tables and reports."""
