"""Suites: a base, its experts, and the tasks they are scored on."""

from .cache import cache_folder
from .suite import Suite, available, open_suite
from .task import Task

__all__ = ["Suite", "Task", "available", "cache_folder", "open_suite"]
