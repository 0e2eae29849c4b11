"""τ_MTL = g(τ₁ … τ_T): the merge methods, one row each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError
from lines_explorer.merging.adaptive import COEFFICIENTS, adamerging_task_vectors
from lines_explorer.merging.arithmetic import average_task_vectors, sum_task_vectors
from lines_explorer.merging.checks import Tensors, require_finite, require_same_tensors
from lines_explorer.merging.competition import pcb_task_vectors
from lines_explorer.merging.drops import (
    breadcrumbs_task_vectors,
    dare_task_vectors,
    dare_ties_task_vectors,
    della_task_vectors,
)
from lines_explorer.merging.geometry import slerp_task_vectors, stock_task_vectors
from lines_explorer.merging.masks import consensus_task_vectors
from lines_explorer.merging.parameters import Parameter, Value, read_parameters
from lines_explorer.merging.spectral import iso_task_vectors, tsv_task_vectors
from lines_explorer.merging.statistics import FISHER, GRAM, fisher_task_vectors, regmean_task_vectors
from lines_explorer.merging.ties import ties_task_vectors, trim_task_vectors
from lines_explorer.recipe import Recipe

TENTHS = tuple(tenth / 10 for tenth in range(1, 11))
FIFTEEN = tuple(tenth / 10 for tenth in range(1, 16))
NEGATIVE = tuple(-tenth for tenth in TENTHS)
"""Constant λ that subtract the sum: forgetting on purpose (Ilharco et al., negation)."""

Parameters = Mapping[str, Value] | Iterable[tuple[str, Value]]


@dataclass(frozen=True)
class Method:
    """One way to merge task vectors.

    Attributes:
        name: key in ``METHODS`` and in recipes.
        title: what the user is shown.
        summary: one sentence.
        equation: the merged task vector, in one line.
        source: where it was published.
        function: τ₁…τ_T (T within ``experts``, the same names and shapes, finite) and ``parameters`` by keyword →
            τ_MTL in float32, new tensors.
        grid: the numbers the protocol tries, as β with LiNeS and as a constant λ without.
        coefficient: what a constant λ multiplies.
        parameters: what the function takes besides, with defaults and bounds.
        experts: the fewest and the most task vectors it can merge; None for no limit.
        names_tasks: the function takes the experts' names as ``tasks``, for random numbers of their own.
        statistics: what has to be measured on each expert's training pictures (``statistics.FISHER`` or ``GRAM``), or
            learned for the experts together (``adaptive.COEFFICIENTS``); the function takes one mapping of tensors per
            expert after the task vectors. Empty for most methods.
    """

    name: str
    title: str
    summary: str
    equation: str
    source: str
    function: Callable[..., dict[str, Tensor]]
    grid: tuple[float, ...]
    coefficient: str
    parameters: tuple[Parameter, ...] = ()
    experts: tuple[int, int | None] = (1, None)
    names_tasks: bool = False
    statistics: str = ""

    def merge(
        self, task_vectors: Sequence[Tensors], *, tasks: Sequence[str] | None = None,
        statistics: Sequence[Tensors] | None = None, **parameters: Value,
    ) -> dict[str, Tensor]:  # fmt: skip
        """τ_MTL in float32 and in new tensors, from checked input.

        Args:
            task_vectors: τ₁…τ_T, each tensor name → tensor.
            tasks: the experts' names, which seed random methods; their numbers 1…T where none are given.
            statistics: one mapping per expert, of a method that needs what was measured.
            parameters: values other than the defaults.

        Raises:
            ExplorerError: none, too few or too many task vectors, a parameter unknown or out of bounds, names or
                shapes that differ, a value that is not finite, no statistics, or what the method's function refuses.
        """
        values = self.check(parameters, len(task_vectors))
        first = task_vectors[0]
        for number, vector in enumerate(task_vectors, start=1):
            require_same_tensors(first, vector, "task vector 1", f"task vector {number}")
            for key, tensor in vector.items():
                if tensor.numel() and not all(torch.isfinite(end) for end in tensor.aminmax()):
                    require_finite(key, [(f"task vector {number}", tensor)])
        names = {"tasks": tasks} if self.names_tasks else {}
        measured = [statistics or ()] if self.statistics else []
        return self.function(task_vectors, *measured, **names, **values)

    def check(self, parameters: Parameters, experts: int) -> dict[str, Value]:
        """All parameters, typed, the absent ones by default; refused together with a number of experts as in ``merge``.

        Raises:
            ExplorerError: the number of experts, or a parameter, is not one the method takes.
        """
        values = read_parameters(self.name, self.parameters, parameters)
        fewest, most = self.experts
        if not experts:
            raise ExplorerError("There is nothing to merge: give at least one task vector.")
        if experts < fewest or most is not None and experts > most:
            needed = f"exactly {most}" if fewest == most else f"at least {fewest}"
            raise ExplorerError(
                f"{self.title} merges {needed} experts, not {experts}; choose as many, or another method."
            )
        return values

    def canonical(self, parameters: Parameters) -> tuple[tuple[str, Value], ...]:
        """The parameters that differ from their defaults, typed and sorted: equal for equal merges.

        Raises:
            ExplorerError: a parameter is unknown or out of bounds.
        """
        values = read_parameters(self.name, self.parameters, parameters)
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        return tuple(sorted((name, value) for name, value in values.items() if value != defaults[name]))


_K = Parameter("k", "Percentage of each task vector's entries that is kept, the largest.", 20.0, 0, 100)
_P = Parameter("p", "Share of the entries that is dropped at random.", 0.5, 0, 0.99)
_SEED = Parameter("seed", "Seed of the random numbers; each task has its own.", 0, 0, 2**31 - 1)
_REFERENCE = Parameter(
    "reference", "Count all-zero tensors too and, in ties, break sign ties, as the authors' code does.", False
)

_ROWS = (
    Method(
        name="sum",
        title="Task arithmetic (sum)",
        summary="Adds the task vectors.",
        equation="τ = Σₜ τₜ",
        source="Ilharco et al., Editing Models with Task Arithmetic, ICLR 2023, arXiv 2212.04089",
        function=sum_task_vectors,
        grid=TENTHS,
        coefficient="the sum of the task vectors",
    ),
    Method(
        name="average",
        title="Average",
        summary="Takes the mean of the task vectors; factor 1 is the average of the experts' weights.",
        equation="τ = (1/T) Σₜ τₜ",
        source="Wortsman et al., Model soups, ICML 2022, arXiv 2203.05482",
        function=average_task_vectors,
        grid=TENTHS,
        coefficient="the mean of the task vectors",
    ),
    Method(
        name="trim",
        title="Magnitude trimming",
        summary="Keeps the largest entries of each task vector and adds them.",
        equation="τ = Σₜ τₜ·1{|τₜ| among the k % largest}",
        source="Yadav et al., TIES-Merging, NeurIPS 2023, arXiv 2306.01708 (its first step)",
        function=trim_task_vectors,
        grid=TENTHS,
        coefficient="the sum of the trimmed task vectors",
        parameters=(_K, _REFERENCE),
    ),
    Method(
        name="ties",
        title="TIES",
        summary="Trims each task vector, elects a sign per coordinate, and merges the entries that agree with it.",
        equation="τ = Σₜ τ̂ₜ·1{sign τ̂ₜ = γ} / |{t : sign τ̂ₜ = γ}|,  γ = sign Σₜ τ̂ₜ,  τ̂ₜ = trim(τₜ, k)",
        source="Yadav et al., TIES-Merging, NeurIPS 2023, arXiv 2306.01708",
        function=ties_task_vectors,
        grid=FIFTEEN,
        coefficient="the mean (or sum) of the entries that agree",
        parameters=(
            _K,
            Parameter("combine", "How the entries that agree are merged.", "mean", choices=("mean", "sum")),
            _REFERENCE,
        ),
    ),
    Method(
        name="consensus",
        title="Consensus (TALL masks)",
        summary="Keeps the merged entries that at least so many tasks' TALL masks use.",
        equation="τ = τ_MTL·1{Σₜ mₜ ≥ agree},  mₜ = 1{|τₜ| > λ·|τ_MTL − τₜ|}",
        source="Wang et al., Localizing Task Information for Improved Model Merging, ICML 2024, arXiv 2405.07813",
        function=consensus_task_vectors,
        grid=TENTHS,
        coefficient="the masked sum of the task vectors",
        parameters=(
            Parameter("agree", "How many tasks' masks must use an entry.", 2, 1, 1000),
            Parameter("threshold", "λ of the TALL masks; larger keeps less.", 0.4, 0, 10),
            Parameter("merged", "What is masked: the sum, or TIES with sums.", "sum", choices=("sum", "ties")),
            _K,
        ),
    ),
    Method(
        name="dare",
        title="DARE (sum)",
        summary="Drops entries at random, rescales the others, and adds the task vectors.",
        equation="τ = Σₜ mₜ ⊙ τₜ / (1 − p),  mₜ ~ Bernoulli(1 − p)",
        source="Yu et al., Language Models are Super Mario, ICML 2024, arXiv 2311.03099",
        function=dare_task_vectors,
        grid=TENTHS,
        coefficient="the sum of the rescaled task vectors",
        parameters=(_P, _SEED),
        names_tasks=True,
    ),
    Method(
        name="dare_ties",
        title="DARE (TIES)",
        summary="Drops entries at random, rescales the others, and takes the mean of those that agree in sign.",
        equation="τ = TIES election and mean of mₜ ⊙ τₜ / (1 − p),  mₜ ~ Bernoulli(1 − p)",
        source="Yu et al., Language Models are Super Mario, ICML 2024, arXiv 2311.03099",
        function=dare_ties_task_vectors,
        grid=FIFTEEN,
        coefficient="the mean of the rescaled entries that agree",
        parameters=(_P, _SEED),
        names_tasks=True,
    ),
    Method(
        name="breadcrumbs",
        title="Model breadcrumbs",
        summary="Drops the outliers and the small entries of every tensor, and adds the task vectors.",
        equation="τ = Σₜ mₜ ⊙ τₜ,  mₜ without the β % smallest and the γ % largest magnitudes per tensor",
        source="Davari and Belilovsky, Model Breadcrumbs, ECCV 2024, arXiv 2312.06795",
        function=breadcrumbs_task_vectors,
        grid=TENTHS,
        coefficient="the sum of the masked task vectors",
        parameters=(
            Parameter("smallest", "Percentage of small entries dropped per tensor.", 85.0, 0, 100),
            Parameter("largest", "Percentage of outliers dropped per tensor.", 0.7, 0, 100),
        ),
    ),
    Method(
        name="della",
        title="DELLA",
        summary="Drops small entries more often than large ones, then merges as TIES does.",
        equation="τ = TIES election and mean of mₜ ⊙ τₜ / (1 − pᵣ),  pᵣ = p − ε/2 + ε·r/n for rank r of n in a row",
        source="Deep et al., DELLA-Merging, 2024, arXiv 2406.11617",
        function=della_task_vectors,
        grid=FIFTEEN,
        coefficient="the mean of the rescaled entries that agree",
        parameters=(
            _P,
            Parameter("epsilon", "Difference in drop rate between the smallest and the largest.", 0.2, 0, 1),
            _SEED,
        ),
        names_tasks=True,
    ),
    Method(
        name="stock",
        title="Model stock",
        summary="Shrinks the mean of every tensor towards the base, the more the wider the experts' angles are.",
        equation="τ = t·(1/T) Σₜ τₜ,  t = T·cos θ / (1 + (T − 1)·cos θ) per tensor",
        source="Jang et al., Model Stock, ECCV 2024, arXiv 2403.19522",
        function=stock_task_vectors,
        grid=FIFTEEN,
        coefficient="the mean of the task vectors, shrunk per tensor",
        experts=(2, None),
    ),
    Method(
        name="slerp",
        title="SLERP (two experts)",
        summary="Goes from one task vector to the other along an arc, tensor by tensor.",
        equation="τ = sin((1 − t)Ω)/sin Ω·τ₁ + sin(tΩ)/sin Ω·τ₂,  Ω the angle between τ₁ and τ₂",
        source="Shoemake, SIGGRAPH 1985; on task vectors: Ramé et al., WARP, 2024, arXiv 2406.16768",
        function=slerp_task_vectors,
        grid=FIFTEEN,
        coefficient="the point on the arc",
        parameters=(Parameter("t", "0 is the first expert in the alphabet, 1 the second.", 0.5, 0, 1),),
        experts=(2, 2),
    ),
    Method(
        name="tsv",
        title="TSV-M",
        summary="Keeps each task's largest singular directions and makes them orthogonal to the other tasks'.",
        equation="τ = U⊥ diag(Σ₁ … Σ_T) V⊥ᵀ per matrix, each Σₜ the top 1/T;  the mean elsewhere",
        source="Gargiulo et al., Task Singular Vectors, CVPR 2025, arXiv 2412.00081",
        function=tsv_task_vectors,
        grid=FIFTEEN,
        coefficient="the sum of the orthogonal parts",
    ),
    Method(
        name="iso",
        title="Iso-C",
        summary="Gives all singular directions of the summed matrices the same length.",
        equation="τ = σ̄ U Vᵀ for Σₜ τₜ = U Σ Vᵀ per matrix;  the mean elsewhere",
        source="Marczak et al., No Task Left Behind, ICML 2025, arXiv 2502.04959",
        function=iso_task_vectors,
        grid=FIFTEEN,
        coefficient="the isotropic sum",
    ),
    Method(
        name="pcb",
        title="PCB-Merging",
        summary="Weighs the entries that are large in their task and agree with the others; drops the rest.",
        equation="τ = Σₜ wₜ ⊙ τₜ / Σₜ wₜ,  wₜ the r % largest of exp(T·|τₜ|²) ⊙ tanh(τₜ ⊙ Σₛ τₛ), mapped to 0 … 1",
        source="Du et al., Parameter Competition Balancing for Model Merging, NeurIPS 2024, arXiv 2410.02396",
        function=pcb_task_vectors,
        grid=FIFTEEN,
        coefficient="the weighted mean of the competing entries",
        parameters=(Parameter("r", "Percentage of each task's entries that compete.", 10.0, 0, 100), _REFERENCE),
    ),
    Method(
        name="fisher",
        title="Fisher merging",
        summary="Weighs every entry by how much its expert's answers depend on it.",
        equation="τ = Σₜ Fₜ ⊙ τₜ / Σₜ Fₜ,  Fₜ = E[(∂ log p(y | x) / ∂θₜ)²] on training pictures",
        source="Matena and Raffel, Merging Models with Fisher-Weighted Averaging, NeurIPS 2022, arXiv 2111.09832",
        function=fisher_task_vectors,
        grid=FIFTEEN,
        coefficient="the weighted mean of the task vectors",
        statistics=FISHER,
    ),
    Method(
        name="regmean",
        title="RegMean",
        summary="Takes of every linear layer the weights that best predict all experts' outputs; the mean elsewhere.",
        equation="τ = (Σₜ τₜ Gₜ)(Σₜ Gₜ)⁻¹ per linear layer,  Gₜ = XₜᵀXₜ with its off-diagonal entries times scale",
        source="Jin et al., Dataless Knowledge Fusion by Merging Weights, ICLR 2023, arXiv 2212.09849",
        function=regmean_task_vectors,
        grid=FIFTEEN,
        coefficient="the regression mean",
        parameters=(Parameter("scale", "What the off-diagonal entries of Gₜ are multiplied by.", 0.9, 0, 1),),
        statistics=GRAM,
    ),
    Method(
        name="adamerging",
        title="AdaMerging",
        summary="Learns a coefficient per task and depth on the unlabelled validation pictures: compare it on test.",
        equation="τ = Σₜ λₜ⁽ˡ⁾ τₜ⁽ˡ⁾,  λ = argmin Σₜ E[H(p(y | x))] on validation pictures x of task t, without labels",
        source="Yang et al., AdaMerging, ICLR 2024, arXiv 2310.02575 (layer-wise)",
        function=adamerging_task_vectors,
        grid=FIFTEEN,
        coefficient="the sum of the task vectors, each with its learned coefficients",
        experts=(2, None),
        statistics=COEFFICIENTS,
    ),
)
METHODS: dict[str, Method] = {method.name: method for method in _ROWS}


def standard(recipe: Recipe) -> Recipe:
    """The recipe without parameters that have their default, the others typed: equal merges have equal hashes.

    Raises:
        ExplorerError: a parameter that the recipe's method does not know or allow.
    """
    method = METHODS.get(recipe.method)
    return recipe if method is None else replace(recipe, parameters=method.canonical(recipe.parameters))
