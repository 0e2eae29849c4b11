"""From what a pickle describes to named tensors: state dicts, training checkpoints, whole modules, heads, masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lines_explorer.checkpoints.archives import Pickled
from lines_explorer.checkpoints.pickles import Damaged, Shell
from lines_explorer.checkpoints.rebuilding import Array, PickledTensor
from lines_explorer.checkpoints.sources import shown
from lines_explorer.checkpoints.tensors import Stored
from lines_explorer.errors import ExplorerError

NESTS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights")
DEEPEST, MOST_PARTS, LONGEST_PREFIX = 64, 1_000_000, 10_000
SCRIPT = "__torch__."
REMEDY = "save a state dict with torch.save(model.state_dict(), …)"


@dataclass(frozen=True)
class Content:
    """Named tensors and what is known of them.

    Attributes:
        kind: ``weights``, ``head`` (a classification head), ``mask`` (TALL masks, one per task) or ``adapter``.
        what: the layout in words.
        entries: name → tensor, names as in the file.
        notes: what was left out or is worth knowing.
        quick_gelu: whether the activation is QuickGELU; None where the file does not say.
        normalize: whether a head normalizes its input; None where the file does not say.
    """

    kind: str
    what: str
    entries: Mapping[str, Stored]
    notes: tuple[str, ...] = ()
    quick_gelu: bool | None = None
    normalize: bool | None = None


def content_of(path: Path, pickled: Pickled) -> Content:
    """The named tensors of a pickled checkpoint.

    Raises ExplorerError when it holds none, or several models, or a tensor that its storage cannot hold.
    """
    root, nest = _model(path, pickled.root)
    if pickled.container == "npy":
        return _masks(path, root)
    if isinstance(root, Shell):
        return _module(path, root, nest)
    named = {key: value for key, value in root.items() if _is_tensor(value)}
    strange = [key for key in named if not isinstance(key, str) or not key]
    if strange:
        raise ExplorerError(f"{path}: a tensor is named {shown(repr(strange[0]))}, which is no text; {REMEDY}.")
    left = len(root) - len(named)
    notes = (f"{left} entries that are no tensors are left out",) if left else ()
    what = f"training checkpoint, key '{shown(nest)}'" if nest else "state dict"
    return as_head(path, Content("weights", what, _stored(path, named), notes))


def as_head(path: Path, content: Content) -> Content:
    """The same, recognised as a classification head where it is nothing but one ``weight`` (classes, D) and a bias.

    Raises ExplorerError when weight and bias do not fit.
    """
    names, weight = set(content.entries), content.entries.get("weight")
    if weight is None or names - {"weight", "bias"} or len(weight.shape) != 2:
        return content
    bias = content.entries.get("bias")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ExplorerError(
            f"{path}: the head's bias has shape {bias.shape}, but its weight {weight.shape} has {weight.shape[0]} "
            "classes; build the head again."
        )
    return replace(content, kind="head")


def _model(path: Path, root: Any) -> tuple[dict[Any, Any] | Shell, str]:
    """The state dict or module in what was saved, and the keys that lead to it."""
    nest: list[str] = []
    seen: dict[tuple[int, bool], bool] = {}
    while isinstance(root, dict) and not any(map(_is_tensor, root.values())):
        nested = [key for key, value in root.items() if isinstance(key, str) and _has_tensors(value, seen)]
        known = [key for key in NESTS if key in nested] or nested
        if len(known) > 1 and known[0] not in NESTS:
            both = " and ".join(f"'{shown(key)}'" for key in known[:2])
            raise ExplorerError(f"{path} holds several models ({both}); save the one to use in a file of its own.")
        if not known or len(nest) > DEEPEST:
            break
        nest.append(known[0])
        root = root[known[0]]
    if isinstance(root, dict) and any(map(_is_tensor, root.values())):
        return root, ".".join(nest)
    if isinstance(root, Shell) and _is_module(root):
        return root, ".".join(nest)
    kind = "one tensor without a name" if _is_tensor(root) else f"{_kind(root)} without named tensors"
    raise ExplorerError(f"{path} holds {kind}; {REMEDY}.")


def _kind(value: Any) -> str:
    return f"an object of {shown(value.name)}" if isinstance(value, Shell) else f"a {type(value).__name__}"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, PickledTensor) or (isinstance(value, Array) and value.is_numeric)


def _has_tensors(value: Any, seen: dict[tuple[int, bool], bool], deep: bool = True) -> bool:
    """Whether a value is a state dict, a module, or a dict with one of these in it; ``seen`` holds earlier answers."""
    if not isinstance(value, dict):
        return isinstance(value, Shell) and _is_module(value)
    asked = (id(value), deep)
    if asked not in seen:
        named = any(isinstance(key, str) for key in value)
        seen[asked] = named and any(
            _is_tensor(item) or (deep and _has_tensors(item, seen, deep=False)) for item in value.values()
        )
    return seen[asked]


def _is_module(shell: Shell) -> bool:
    return "_parameters" in shell.attributes or shell.name.startswith(SCRIPT)


def _stored(path: Path, named: Mapping[str, PickledTensor | Array]) -> dict[str, Stored]:
    entries = {}
    for name, tensor in named.items():
        try:
            entries[name] = tensor.stored()
        except Damaged as fault:
            raise ExplorerError(f"{path}: tensor '{shown(name)}' cannot be read: {fault}; save it again.") from fault
    return entries


def _module(path: Path, root: Shell, nest: str) -> Content:
    """A whole pickled module: its parameters and persistent buffers, by the names its ``state_dict`` would give."""
    named: dict[str, PickledTensor | Array] = {}
    classes: set[str] = set()
    for prefix, module in _modules(path, root):
        classes.add(module.name.rpartition(".")[2])
        named |= {prefix + name: tensor for name, tensor in _own_tensors(module).items()}
    if not named:
        raise ExplorerError(f"{path}: the module {shown(root.name)} has no parameters; {REMEDY}.")
    quick = True if any("QuickGELU" in name for name in classes) else False if "GELU" in classes else None
    normalize = root.attributes.get("normalize")
    what = f"whole module {shown(root.name)}" + (f", key '{shown(nest)}'" if nest else "")
    notes = ("read without its classes; nothing of it was run",)
    content = Content("weights", what, _stored(path, named), notes, quick)
    return replace(as_head(path, content), normalize=normalize if isinstance(normalize, bool) else None)


def _modules(path: Path, root: Shell) -> Iterator[tuple[str, Shell]]:
    """Every module below ``root`` with the prefix of its names, parents first."""
    waiting: list[tuple[str, Shell, int]] = [("", root, 0)]
    looked_at = 0
    while waiting:
        prefix, module, depth = waiting.pop()
        attributes = module.attributes
        children = attributes if module.name.startswith(SCRIPT) else attributes.get("_modules")
        looked_at += 1 + sum(len(part) for part in (*attributes.values(), children) if isinstance(part, dict | list))
        if depth > DEEPEST or looked_at > MOST_PARTS or len(prefix) > LONGEST_PREFIX:
            raise ExplorerError(f"{path}: its modules contain each other without end; {REMEDY}.")
        yield prefix, module
        below = children.items() if isinstance(children, dict) else ()
        named = [(str(name), child) for name, child in below if isinstance(child, Shell) and _is_module(child)]
        waiting += [(f"{prefix}{name}.", child, depth + 1) for name, child in reversed(named)]


def _own_tensors(module: Shell) -> dict[str, PickledTensor | Array]:
    attributes = module.attributes
    if module.name.startswith(SCRIPT):
        groups = [attributes]
    else:
        groups = [attributes.get("_parameters"), attributes.get("_buffers")]
    passing = attributes.get("_non_persistent_buffers_set")
    passing = {name for name in passing if isinstance(name, str)} if isinstance(passing, list | tuple) else set()
    return {
        name: tensor
        for group in groups
        if isinstance(group, dict)
        for name, tensor in group.items()
        if isinstance(name, str) and _is_tensor(tensor) and name not in passing
    }


def _masks(path: Path, root: Any) -> Content:
    """TALL masks: task → packed bits over the weights in sorted order of their names."""
    named = {name: mask for name, mask in root.items() if _is_tensor(mask)} if isinstance(root, dict) else {}
    if not named or len(named) < len(root) or not all(isinstance(name, str) for name in named):
        raise ExplorerError(f"{path} does not map tasks to masks; save a dict of task to packed bits.")
    entries = _stored(path, named)
    first = next(iter(entries))
    for name, mask in entries.items():
        if mask.dtype not in ("uint8", "bool") or len(mask.shape) != 1:
            raise ExplorerError(
                f"{path}: mask '{shown(name)}' is {mask.dtype} of shape {mask.shape}; pack it with numpy.packbits."
            )
        if mask.shape != entries[first].shape:
            raise ExplorerError(
                f"{path}: mask '{shown(name)}' has {mask.shape[0]} bytes, '{shown(first)}' {entries[first].shape[0]}; "
                "all must be masks of one model."
            )
    return Content("mask", "TALL masks", entries)
