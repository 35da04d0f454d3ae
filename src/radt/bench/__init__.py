"""Speed against a named baseline, measured on the user's machine: `radt bench`."""

from radt.bench.collect import bench_collect
from radt.bench.evaluate import bench_evaluate

__all__ = ["bench_collect", "bench_evaluate"]
