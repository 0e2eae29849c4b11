"""Right answers counted → accuracies, intervals, normalisation, selection, fronts. Pure numbers, no tensors."""

from lines_explorer.analysis.accuracy import Accuracy, Mean, mean_accuracy, mean_normalized, normalized
from lines_explorer.analysis.choice import (
    MultiTaskPoint,
    SingleTaskPoint,
    multi_task_choice,
    pareto_front,
    single_task_choice,
)

__all__ = [
    "Accuracy",
    "Mean",
    "MultiTaskPoint",
    "SingleTaskPoint",
    "mean_accuracy",
    "mean_normalized",
    "multi_task_choice",
    "normalized",
    "pareto_front",
    "single_task_choice",
]
