"""Task vectors → merged task vector → merged model: pure tensor functions and one table of methods."""

from lines_explorer.merging.arithmetic import apply, task_vector
from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.methods import METHODS, Method, average_task_vectors, norm_ratio, sum_task_vectors

__all__ = [
    "METHODS",
    "Method",
    "Tensors",
    "apply",
    "average_task_vectors",
    "norm_ratio",
    "sum_task_vectors",
    "task_vector",
]
