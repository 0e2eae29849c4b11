"""How much of a task vector each depth of the network keeps: λ⁽¹⁾ … λ⁽ᴸ⁾.

LiNeS (Wang et al., "LiNeS: Post-training Layer Scaling Prevents Forgetting and Enhances Model Merging", ICLR 2025,
arXiv 2410.17146) scales block l = 1…L of a task vector by

    λ⁽ˡ⁾ = α + β·g(x),   x = (l − 1)/(L − 1),   g(x) = x,

so α scales the first block and α + β the last. The other curves g are those the authors tried beside it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from lines_explorer.errors import ExplorerError

CURVES: dict[str, Callable[[float], float]] = {
    "lines": lambda x: x,
    "square": lambda x: x * x,
    "root": math.sqrt,
    "sigmoid": lambda x: 1 / (1 + math.exp(5 - 10 * x)),
    "reversed": lambda x: 1 - x,
    "constant": lambda x: 0.0,
}
FREE = "free"
RULES = ("reference", "depth")
LIMIT = 10.0


@dataclass(frozen=True)
class Schedule:
    """A curve over depth.

    Attributes:
        kind: a key of ``CURVES``, or ``"free"``.
        alpha: α, finite, |α| ≤ 10. Factor of the tensors before the first block.
        beta: β, finite, |β| ≤ 10.
        factors: free only: λ⁽¹⁾ … λ⁽ᴸ⁾, one per block, each as bounded as α.
        rest: free only: the factor of every tensor outside the blocks.

    Raises:
        ExplorerError: an unknown kind, a number out of range, or a field that the kind does not use.
    """

    kind: str
    alpha: float = 1.0
    beta: float = 0.0
    factors: tuple[float, ...] = ()
    rest: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in CURVES and self.kind != FREE:
            raise ExplorerError(f"Unknown schedule {self.kind!r}; choose one of {', '.join([*CURVES, FREE])}.")
        if isinstance(self.factors, str) or not isinstance(self.factors, Sequence):
            raise ExplorerError(f"factors must be a list of numbers, one per block, not {self.factors!r}.")
        for name in ("alpha", "beta", "rest"):
            object.__setattr__(self, name, bounded(name, getattr(self, name)))
        numbered = enumerate(self.factors, start=1)
        object.__setattr__(self, "factors", tuple(bounded(f"factor {block}", value) for block, value in numbered))
        self._refuse_unused_fields()

    def _refuse_unused_fields(self) -> None:
        if self.kind != FREE and (self.factors or self.rest != 1.0):
            raise ExplorerError(f"factors and rest belong to the free schedule; {self.kind} takes alpha and beta.")
        if self.kind == FREE and (self.alpha != 1.0 or self.beta != 0.0):
            raise ExplorerError("alpha and beta do not belong to the free schedule; give factors and rest.")
        if self.kind == FREE and not self.factors:
            raise ExplorerError("A free schedule needs one factor per block; none was given.")

    def block_factors(self, depth: int) -> tuple[float, ...]:
        """λ⁽¹⁾ … λ⁽ᴸ⁾ for L = ``depth`` blocks: α + β·g((l − 1)/(L − 1)); one block alone gets α.

        Raises:
            ExplorerError: depth below 1, or a free schedule drawn for another depth.
        """
        if depth < 1:
            raise ExplorerError(f"A model needs at least one block to be scaled over depth; it has {depth}.")
        if self.kind == FREE:
            if len(self.factors) != depth:
                raise ExplorerError(
                    f"The free schedule has {len(self.factors)} factors, but the model has {depth} blocks."
                )
            return self.factors
        if depth == 1:
            return (self.alpha,)
        curve = CURVES[self.kind]
        return tuple(self.alpha + self.beta * curve(block / (depth - 1)) for block in range(depth))

    def outer_factors(self, depth: int, rule: str = "reference") -> tuple[float, float]:
        """Factors of the tensors (before the first block, after the last block).

        ``reference``, the authors' code: α on both sides. ``depth``: what comes after the last block is scaled like
        the last block. A free schedule says it itself: ``rest`` on both sides, whatever the rule.

        Raises:
            ExplorerError: an unknown rule, or what ``block_factors`` refuses.
        """
        require_rule(rule)
        blocks = self.block_factors(depth)
        if self.kind == FREE:
            return self.rest, self.rest
        return self.alpha, blocks[-1] if rule == "depth" else self.alpha


def lines(alpha: float, beta: float) -> Schedule:
    """LiNeS: λ⁽ˡ⁾ = α + β·(l − 1)/(L − 1)."""
    return Schedule("lines", alpha, beta)


def constant(scale: float) -> Schedule:
    """The same λ everywhere: task arithmetic, and for one expert the WiSE-FT line θ₀ + λτ."""
    return Schedule("constant", scale)


def free(factors: Sequence[float], rest: float) -> Schedule:
    """A drawn schedule: one factor per block, and ``rest`` for the tensors outside the blocks."""
    return Schedule(FREE, factors=factors, rest=rest)


def single_task(gamma: float, kind: str = "lines") -> Schedule:
    """The single-task knob γ in [0, 1]: α = γ, β = 1 − γ. γ = 1 is the expert; the last LiNeS block keeps factor 1.

    Raises:
        ExplorerError: γ outside [0, 1], or a kind without α and β.
    """
    if not 0 <= bounded("gamma", gamma) <= 1:
        raise ExplorerError(f"gamma must lie between 0 and 1, not {gamma}.")
    return Schedule(kind, gamma, 1 - gamma)


def require_rule(rule: str) -> None:
    """Refuse a layer rule that is not one of ``RULES``."""
    if rule not in RULES:
        raise ExplorerError(f"Unknown layer rule {rule!r}; choose one of {', '.join(RULES)}.")


def bounded(name: str, value: Any) -> float:
    """``value`` as a float, refused unless it is a number with |value| ≤ ``LIMIT`` (so never nan or infinite)."""
    if not isinstance(value, Real) or isinstance(value, bool) or not abs(value) <= LIMIT:
        raise ExplorerError(f"{name} must be a number between -{LIMIT:g} and {LIMIT:g}, not {value!r}.")
    return float(value)
