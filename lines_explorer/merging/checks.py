"""What must hold before tensors are added: the same names, the same shapes, finite values."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from lines_explorer.errors import ExplorerError

Tensors = Mapping[str, Tensor]


def require_same_tensors(first: Tensors, second: Tensors, first_name: str, second_name: str) -> None:
    """Refuse two sets of tensors whose names, shapes (broadcastable ones too) or kinds of number differ.

    Raises:
        ExplorerError: naming what is missing and extra and why that may be, or the tensor and both shapes or dtypes.
    """
    missing, extra = sorted(first.keys() - second.keys()), sorted(second.keys() - first.keys())
    if missing or extra:
        lists = [f"lacks {_listed(missing)}"] * bool(missing) + [f"has in addition {_listed(extra)}"] * bool(extra)
        raise ExplorerError(
            f"{second_name[0].upper()}{second_name[1:]} {' and '.join(lists)}, compared with {first_name}; "
            f"{_likely_reason(missing, extra)}."
        )
    for key, tensor in first.items():
        other = second[key]
        if tensor.shape != other.shape:
            shapes = f"{tuple(tensor.shape)} in {first_name} but {tuple(other.shape)} in {second_name}"
            raise ExplorerError(f"Tensor '{key}' has shape {shapes}; both must come from the same architecture.")
        if tensor.is_floating_point() != other.is_floating_point():
            dtypes = f"{tensor.dtype} in {first_name} but {other.dtype} in {second_name}"
            raise ExplorerError(f"Tensor '{key}' is {dtypes}; a weight must be floating point in both.")


def require_finite(key: str, named: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse a nan or infinite value in tensor ``key``; ``named`` are (whose, tensor) pairs in the order to blame."""
    for whose, tensor in named:
        if bad := int((~torch.isfinite(tensor)).sum()):
            raise ExplorerError(f"Tensor '{key}' of {whose} has {bad} values that are not finite (nan or infinite).")


def _listed(keys: list[str]) -> str:
    shown = ", ".join(f"'{key}'" for key in keys[:5])
    return shown if len(keys) <= 5 else f"{shown} and {len(keys) - 5} more"


def _likely_reason(missing: list[str], extra: list[str]) -> str:
    if any("lora_" in key for key in extra):
        return "it looks like a LoRA adapter, which must be merged into its base first"
    if missing and extra and (prefix := _added_prefix(missing, extra)):
        return f"its names carry the prefix '{prefix}', which should be removed"
    if missing and extra and (prefix := _added_prefix(extra, missing)):
        return f"its names lack the prefix '{prefix}', which should be added"
    if missing and extra:
        return "the two are probably of different architectures"
    if missing:
        return "it is probably one part of a checkpoint (one tower, one shard) or a smaller model"
    return "it probably holds more than the model (a head, another tower, optimizer state) or is a larger model"


def _added_prefix(plain: list[str], prefixed: list[str]) -> str:
    """The prefix that turns the names ``plain`` into ``prefixed``, or ''."""
    candidates = {key.removesuffix(plain[0]) for key in prefixed if key.endswith("." + plain[0])}
    return next((p for p in sorted(candidates) if {p + key for key in plain} == set(prefixed)), "")
