"""Suites: a base, its experts, and the tasks they are scored on."""

from lines_explorer.suites.cache import cache_folder
from lines_explorer.suites.suite import Suite, available, open_suite
from lines_explorer.suites.task import Task
from lines_explorer.suites.weights import MemoryBill

__all__ = ["MemoryBill", "Suite", "Task", "available", "cache_folder", "open_suite"]
