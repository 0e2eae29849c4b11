"""Merging the singular vectors of matrices: TSV-M and Iso-C. Tensors that are no matrices are averaged.

Directions whose singular value is zero (to rounding) are left out: a decomposition returns arbitrary ones for them.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lines_explorer.merging.checks import Tensors


def tsv_task_vectors(task_vectors: Sequence[Tensors]) -> dict[str, Tensor]:
    """TSV-M (Gargiulo et al., "Task Singular Vectors", CVPR 2025).

    Per matrix: τₜ = UₜΣₜVₜᵀ, of which the ⌊min(m, n)/T⌋ largest singular values stay (at least one). Side by side,
    U = [U₁ … U_T] and V = [V₁ … V_T] are replaced by the nearest matrices with orthonormal columns,
    U⊥ = P Qᵀ for U = P D Qᵀ, and the merged matrix is U⊥ diag(Σ₁ … Σ_T) V⊥ᵀ.
    """
    return _by_tensor(task_vectors, _merged_singular_vectors)


def iso_task_vectors(task_vectors: Sequence[Tensors]) -> dict[str, Tensor]:
    """Iso-C (Marczak et al., "No Task Left Behind", ICML 2025): the sum's spectrum made flat.

    Per matrix: Σₜ τₜ = U Σ Vᵀ becomes σ̄ U Vᵀ, σ̄ the mean of the singular values (of those that are not zero).
    """
    return _by_tensor(task_vectors, _isotropic)


def _merged_singular_vectors(matrices: Sequence[Tensor]) -> Tensor:
    share = max(1, min(matrices[0].shape) // len(matrices))
    left, values, right = zip(*(_svd(matrix, share) for matrix in matrices), strict=True)
    return _orthogonal(torch.cat(left, dim=1)) * torch.cat(values) @ _orthogonal(torch.cat(right, dim=0))


def _isotropic(matrices: Sequence[Tensor]) -> Tensor:
    left, values, right = _svd(sum(matrix.float() for matrix in matrices))
    return left @ right * (values.mean() if len(values) else 0.0)


def _orthogonal(matrix: Tensor) -> Tensor:
    """P Qᵀ for P D Qᵀ: the nearest matrix with orthonormal columns (or rows), on the range of the given one."""
    left, _, right = _svd(matrix)
    return left @ right


def _svd(matrix: Tensor, rank: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U (m, r), Σ (r,), Vᵀ (r, n) of at most ``rank`` singular values, those that are zero to rounding left out."""
    left, values, right = torch.linalg.svd(matrix.float(), full_matrices=False)
    noise = torch.finfo(torch.float32).eps * max(matrix.shape) * values[:1]
    kept = min(int((values > noise).sum()), rank or len(values))
    return left[:, :kept], values[:kept], right[:kept]


def _by_tensor(task_vectors: Sequence[Tensors], merge: Callable[[Sequence[Tensor]], Tensor]) -> dict[str, Tensor]:
    """``merge`` for every matrix of at least one entry, the mean for every other tensor; float32."""
    merged = {}
    for key, first in task_vectors[0].items():
        tensors = [vector[key] for vector in task_vectors]
        matrix = first.dim() == 2 and first.numel() > 0
        merged[key] = merge(tensors) if matrix else sum(tensor.float() for tensor in tensors) / len(tensors)
    return merged
