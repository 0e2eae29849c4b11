"""Task vectors → merged task vector → merged model: pure tensor functions and one table of methods."""

from lines_explorer.merging.adaptive import COEFFICIENTS
from lines_explorer.merging.arithmetic import (
    apply,
    average_task_vectors,
    norm_ratio,
    sum_task_vectors,
    task_vector,
)
from lines_explorer.merging.checks import Tensors
from lines_explorer.merging.masks import masked, tall_mask
from lines_explorer.merging.methods import METHODS, NEGATIVE, Method, standard
from lines_explorer.merging.parameters import Parameter, written

__all__ = [
    "COEFFICIENTS",
    "METHODS",
    "NEGATIVE",
    "Method",
    "Parameter",
    "Tensors",
    "apply",
    "average_task_vectors",
    "masked",
    "norm_ratio",
    "standard",
    "sum_task_vectors",
    "tall_mask",
    "task_vector",
    "written",
]
