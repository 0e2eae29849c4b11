"""The page: views, figures, texts. No arithmetic on weights; accuracies come from the engine and the analysis."""

from lines_explorer.ui.serving import serve

__all__ = ["serve"]
