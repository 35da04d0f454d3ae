"""Speed against a named baseline, measured on the user's machine: `radt bench`."""

from radt.bench.collect import bench_collect
from radt.bench.decide import bench_decide
from radt.bench.distributed import bench_distributed
from radt.bench.evaluate import bench_evaluate
from radt.bench.memory import bench_memory
from radt.bench.train import bench_train

__all__ = [
    "bench_collect",
    "bench_decide",
    "bench_distributed",
    "bench_evaluate",
    "bench_memory",
    "bench_train",
]
