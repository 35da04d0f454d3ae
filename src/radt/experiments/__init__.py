"""Experiments as data: the entries of `radt reproduce`."""

from radt.experiments import ablations as ablations
from radt.experiments import ad_gap as ad_gap
from radt.experiments import analyses as analyses
from radt.experiments import authors_rules as authors_rules
from radt.experiments import budget_curve as budget_curve
from radt.experiments import controls as controls
from radt.experiments import dark_room as dark_room
from radt.experiments import data_sources as data_sources
from radt.experiments import demonstrations as demonstrations
from radt.experiments import efficiency as efficiency
from radt.experiments import key_door as key_door
from radt.experiments import language_models as language_models
from radt.experiments import mazerunner as mazerunner
from radt.experiments import procgen as procgen
from radt.experiments import robots as robots
from radt.experiments import same_weights as same_weights
from radt.experiments import slippery_room as slippery_room
from radt.experiments import training_contexts as training_contexts
from radt.experiments import tuning as tuning
from radt.experiments import tuning_baselines as tuning_baselines
from radt.experiments.experiment import EXPERIMENTS as EXPERIMENTS
from radt.experiments.experiment import Experiment as Experiment
from radt.experiments.experiment import Measurement as Measurement
from radt.experiments.experiment import Study as Study
from radt.experiments.experiment import Verdict as Verdict
