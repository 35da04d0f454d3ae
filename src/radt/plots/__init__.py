"""What a run leaves to look at: curves, moving pictures, tables and reports."""

from radt.plots.comparison import write_comparison
from radt.plots.curves import icl_curve
from radt.plots.episodes import trials_gif
from radt.plots.learning import learning_curve
from radt.plots.records import Outcome, RecordError, outcomes, read_record
from radt.plots.report import write_report
from radt.plots.rows import Row, method_table
from radt.plots.tables import markdown

__all__ = [
    "Outcome",
    "RecordError",
    "Row",
    "icl_curve",
    "learning_curve",
    "markdown",
    "method_table",
    "outcomes",
    "read_record",
    "trials_gif",
    "write_comparison",
    "write_report",
]
