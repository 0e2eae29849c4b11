"""The live part: weights written in place, right answers counted, results kept, waiting organised."""

from .backend import Backend
from .curves import constant_recipes, multi_task_recipes, single_task_recipes
from .engine import Engine
from .evaluator import Evaluator, Progress
from .results import Evaluation, Summary, TaskScore, TaskSummary, write_results
from .store import Row, Store

__all__ = [
    "Backend", "Engine", "Evaluation", "Evaluator", "Progress", "Row", "Store", "Summary", "TaskScore", "TaskSummary",
    "constant_recipes", "multi_task_recipes", "single_task_recipes", "write_results",
]  # fmt: skip
