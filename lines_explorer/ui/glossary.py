"""What the field's words mean, shown where they are hovered, focused or touched, and all together below."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A term: its words as they occur in texts (the first one is its name), and its meaning in a sentence or two."""

    words: tuple[str, ...]
    meaning: str

    @property
    def name(self) -> str:
        """As the list of terms calls it."""
        return self.words[0]


TERMS: dict[str, Term] = {
    "base": Term(("base",), "The pre-trained model θ₀, before any fine-tuning."),
    "expert": Term(("expert", "experts"), "The base fine-tuned on one task, θₜ; the text head stays as it was."),
    "update": Term(
        ("task vector", "task vectors", "update", "updates"),
        "τₜ = θₜ − θ₀: what fine-tuning on task t changed in the weights. Merging works on task vectors.",
    ),
    "block": Term(
        ("block", "blocks"),
        "One of the L residual transformer blocks, counted from the input (l = 1) to the output (l = L).",
    ),
    "lines": Term(
        ("LiNeS",),
        "Layer scaling: block l keeps λ⁽ˡ⁾ = α + β·(l−1)/(L−1) of the update: little in the first blocks, much in the "
        "last.",
    ),
    "constant": Term(
        ("constant λ", "constant"),
        "The same factor in every block: for one expert the WiSE-FT line θ₀ + λτ, for a sum task arithmetic.",
    ),
    "target": Term(("target",), "Accuracy on the task the edit is for, or the mean over the merged tasks."),
    "control": Term(("control",), "Mean accuracy on the other tasks of the suite: what forgetting takes away."),
    "forgets": Term(("forgets", "forget", "forgetting"), "To lose control accuracy that the base had."),
    "normalized": Term(
        ("normalized",),
        "Divided by a reference on the same split: a target by its expert’s accuracy, control by the base’s. It can "
        "exceed 100 %.",
    ),
    "zero": Term(("zero-shot",), "The base’s accuracy on a task through the task’s text head, without fine-tuning."),
    "interval": Term(
        ("95 % intervals", "95 % interval", "95 % bands", "interval"),
        "95 of 100 such intervals hold the accuracy on all pictures of the kind. Another training run may differ more.",
    ),
    "noise": Term(
        ("within noise", "beyond noise", "noise"),
        "A difference that other pictures could turn round: its 95 % interval holds 0, or p is 0.05 or more.",
    ),
    "validation": Term(
        ("validation",), "Held-out pictures that settings are chosen on; test pictures are others, looked at once."
    ),
    "rule": Term(
        ("paper’s rule", "rule’s sum"),
        "Of the grid’s points, the one with the largest 2 × target + control (one expert) or target (several), "
        "normalized, on validation.",
    ),
    "norms": Term(
        ("from the norms", "norms"),
        "α = (1/T)·‖Σₜτₜ‖₁ / ‖τ_MTL‖₁ for a merge of T experts: 1/T for their plain sum.",
    ),
    "interfere": Term(
        ("interfere", "interference"), "Updates of several experts that push the same weights apart when added up."
    ),
    "interpolated": Term(
        ("interpolated",),
        "Read between two evaluated points, not measured; drawn hollow until the evaluation is there.",
    ),
    "evaluated": Term(("evaluated",), "Measured with the real merged weights on real pictures; drawn solid."),
    "corrected": Term(
        ("corrected for their number",),
        "Of many comparisons some look large by chance; Holm’s correction keeps the chance of any such mistake at 5 %.",
    ),
}
TITLE = "Words"


def as_json() -> list[dict[str, object]]:
    """Every term as the page needs it."""
    return [{"key": key, "words": list(term.words), "meaning": term.meaning} for key, term in TERMS.items()]


def listed() -> str:
    """All terms as an HTML list of definitions; each meaning has the id that its occurrences refer to."""
    rows = (
        f'<dt>{term.name}</dt><dd id="lx-term-{key}">{term.meaning}</dd>'
        for key, term in sorted(TERMS.items(), key=_name)
    )
    return f"<dl>{''.join(rows)}</dl>"


def _name(row: tuple[str, Term]) -> str:
    return row[1].name.lower()
