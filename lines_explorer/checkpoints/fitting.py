"""Whether two checkpoints can be subtracted, told from names and shapes before a single number is read."""

from __future__ import annotations

from collections.abc import Mapping

from lines_explorer.checkpoints.opening import Checkpoint
from lines_explorer.checkpoints.sources import shown
from lines_explorer.checkpoints.tensors import Stored
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of


def require_fit(base: Checkpoint, expert: Checkpoint) -> None:
    """Refuse an expert whose canonical names, shapes or kinds of number are not the base's.

    Shapes are compared exactly: two that only broadcast would give a tensor of another size.

    Raises:
        ExplorerError: naming both files, the first tensor that differs, both shapes, and the likely reason.
    """
    for checkpoint in (base, expert):
        if checkpoint.kind != "weights":
            raise ExplorerError(f"{checkpoint.path} holds {checkpoint.what}, not a model; give the model's weights.")
    ours, theirs = base.canonical_entries, expert.canonical_entries
    reason = _reason(ours, theirs)
    for lacking, having, names in (
        (expert, base, [name for name in ours if name not in theirs]),
        (base, expert, [name for name in theirs if name not in ours]),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ExplorerError(
                f"{lacking.path} lacks '{shown(names[0])}'{more}, which {having.path} has: {reason}; "
                "use an expert fine-tuned from this base."
            )
    for name, entry in ours.items():
        other = theirs[name]
        if entry.shape != other.shape:
            raise ExplorerError(
                f"Tensor '{shown(name)}' has shape {entry.shape} in {base.path} but {other.shape} in {expert.path}: "
                f"{_reason(ours, theirs, name)}; use an expert fine-tuned from this base."
            )
        if entry.is_floating_point != other.is_floating_point:
            raise ExplorerError(
                f"Tensor '{shown(name)}' is {entry.dtype} in {base.path} but {other.dtype} in {expert.path}; "
                "a weight must be floating point in both: save the expert again without quantising it."
            )


def _reason(ours: Mapping[str, Stored], theirs: Mapping[str, Stored], name: str = "") -> str:
    """Why the two differ, as far as shapes and names show it."""
    one, two = _measures(ours), _measures(theirs)
    different = [f"{what} {one[what]} against {two[what]}" for what in one if what in two and one[what] != two[what]]
    if different:
        return "they differ in " + ", ".join(different)
    if name and ours[name].shape == theirs[name].shape[::-1]:
        return "one of them is transposed"
    if not ours.keys() & theirs.keys():
        return "they name their tensors differently, so they are of different architectures or formats"
    return "they are of different architectures, or one of them is only a part"


def _measures(entries: Mapping[str, Stored]) -> dict[str, int]:
    """Depth, patch size and width, where they can be read from names and shapes."""
    found = {}
    try:
        found["depth"] = layout_of(entries).depth
    except ExplorerError:
        pass  # an unknown family has no depth to compare; names and shapes still tell
    for name, entry in entries.items():
        if (
            name.endswith(("conv1.weight", "patch_embedding.weight", "patch_embed.proj.weight"))
            and len(entry.shape) == 4
        ):
            found |= {"width": entry.shape[0], "patch size": entry.shape[-1]}
    return found
