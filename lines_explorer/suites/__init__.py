"""Suites: a base, its experts, and the tasks they are scored on."""

from lines_explorer.suites.bill import MemoryBill, bill_sentence
from lines_explorer.suites.cache import cache_folder
from lines_explorer.suites.revisions import Revision, revisions
from lines_explorer.suites.suite import Suite, available, open_suite
from lines_explorer.suites.task import Task

__all__ = [
    "MemoryBill",
    "Revision",
    "Suite",
    "Task",
    "available",
    "bill_sentence",
    "cache_folder",
    "open_suite",
    "revisions",
]
