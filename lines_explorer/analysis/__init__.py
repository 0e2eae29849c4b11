"""Right answers counted → accuracies, intervals, normalisation, selection, fronts. Pure numbers, no tensors."""

from lines_explorer.analysis.accuracy import Accuracy, Mean, mean_accuracy, mean_normalized, normalized
from lines_explorer.analysis.blocks import block_cosines, block_norms, block_sign_conflicts
from lines_explorer.analysis.choice import (
    MultiTaskPoint,
    SingleTaskPoint,
    constrained_choice,
    greedy_choice,
    multi_task_choice,
    pareto_front,
    single_task_choice,
)
from lines_explorer.analysis.estimate import (
    Estimate,
    Estimates,
    Sample,
    allocation,
    estimate_accuracies,
    stratified_order,
)
from lines_explorer.analysis.paired import (
    PairedDifference,
    holm,
    mcnemar,
    mean_paired_difference,
    paired_difference,
)
from lines_explorer.analysis.sensitivity import (
    Sensitivity,
    choice_sensitivity,
    constrained_rule,
    multi_task_rule,
    single_task_rule,
)

__all__ = [
    "Accuracy",
    "Estimate",
    "Estimates",
    "Mean",
    "MultiTaskPoint",
    "PairedDifference",
    "Sample",
    "Sensitivity",
    "SingleTaskPoint",
    "allocation",
    "block_cosines",
    "block_norms",
    "block_sign_conflicts",
    "choice_sensitivity",
    "constrained_choice",
    "constrained_rule",
    "estimate_accuracies",
    "greedy_choice",
    "holm",
    "mcnemar",
    "mean_accuracy",
    "mean_normalized",
    "mean_paired_difference",
    "multi_task_choice",
    "multi_task_rule",
    "normalized",
    "paired_difference",
    "pareto_front",
    "single_task_choice",
    "single_task_rule",
    "stratified_order",
]
