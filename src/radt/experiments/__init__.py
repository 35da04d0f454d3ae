"""Experiments as data: the entries of `radt reproduce`, each registers itself."""

from importlib import import_module
from pkgutil import iter_modules

from radt.experiments.experiment import EXPERIMENTS as EXPERIMENTS
from radt.experiments.experiment import Experiment as Experiment
from radt.experiments.experiment import Measurement as Measurement
from radt.experiments.experiment import Study as Study
from radt.experiments.experiment import Verdict as Verdict

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
