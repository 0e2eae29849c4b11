"""The live part: weights written in place, right answers counted, results kept, waiting organised."""

from lines_explorer.engine.backend import Backend
from lines_explorer.engine.curves import (
    TURNED,
    block_recipes,
    constant_recipes,
    multi_task_recipes,
    neighbours,
    reversed_recipe,
    single_task_recipes,
)
from lines_explorer.engine.engine import Engine
from lines_explorer.engine.estimating import Estimated, EstimatedSummary, EstimatedTask
from lines_explorer.engine.evaluator import Evaluator, Progress
from lines_explorer.engine.evidence import Evidence
from lines_explorer.engine.results import Answers, Evaluation, Summary, TaskScore, TaskSummary, write_results
from lines_explorer.engine.store import Row, Store

__all__ = [
    "Answers", "Backend", "Engine", "Estimated", "EstimatedSummary", "EstimatedTask", "Evaluation", "Evaluator",
    "Evidence", "Progress", "Row", "Store", "Summary", "TURNED", "TaskScore", "TaskSummary", "block_recipes",
    "constant_recipes", "multi_task_recipes", "neighbours", "reversed_recipe", "single_task_recipes", "write_results",
]  # fmt: skip
