"""LoRA and RandLoRA adapters of peft as dense differences to a given base: from then on ordinary task vectors.

Only ``adapter_config.json`` and ``adapter_model.safetensors`` are read; nothing in the folder is executed. The formulas
are those of peft's ``merge``, computed in float32 whatever the stored dtype:

* LoRA (Hu et al., ICLR 2022): τ = s·B·A, s = alpha/r, or alpha/√r with ``use_rslora`` (Kalajdzievski 2023);
* DoRA (Liu et al., ICML 2024): τ = (m / ‖θ₀ + s·B·A‖₂)·(θ₀ + s·B·A) − θ₀, norms over each row;
* RandLoRA (Albert et al., ICLR 2025): τ = (alpha/r)·B·(Λ A Γ), random bases A, B shared by all layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lines_explorer.checkpoints.files import read_safetensors
from lines_explorer.checkpoints.folders import read_json
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

    from lines_explorer.checkpoints.files import Tensors

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
WRAPPER = "base_model.model."
PREFIXES = ("vision_model.", "model.", "module.", "clip.", "text_model.", "transformer.")
PART = re.compile(
    r"(?P<module>.+?)\.(?P<part>lora_A\.weight|lora_B\.weight|lora_B\.bias|lora_embedding_A|lora_embedding_B|"
    r"lora_magnitude_vector(?:\.weight)?|randlora_lambda|randlora_gamma|randlora_A|randlora_B)"
)
SHARED_BASES = re.compile(r"(?:base_model\.(?:model\.)?)?(randlora_[AB])")
CHANGED_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
NOT_A_DELTA = {
    "use_qalora": "it was trained on a quantised base",
    "alora_invocation_tokens": "it acts only after certain tokens",
    "layer_replication": "it repeats layers of the base",
    "target_parameters": "it targets parameters, not modules",
    "trainable_token_indices": "it retrains single tokens",
    "use_bdlora": "its matrices are block-diagonal",
    "arrow_config": "it routes between adapters",
    "kasa_config": "it changes the base's singular values",
    "monteclora_config": "it is random",
    "megatron_config": "it was trained in parts",
}


@dataclass(frozen=True)
class Adapter:
    """One adapter as it lies on disk.

    Attributes:
        folder: where it was read.
        config: adapter_config.json.
        parts: module → {lora_A.weight, lora_B.weight, …: tensor}; names without ``base_model.model.``.
        whole: tensor name → its trained value, for what was trained whole (biases, ``modules_to_save``).
        bases: randlora_A (r, 1, n) and randlora_B (m, ⌈n/r⌉, r), for RandLoRA.
    """

    folder: Path
    config: Mapping[str, Any]
    parts: Mapping[str, Tensors]
    whole: Tensors
    bases: Tensors

    def refuse(self, why: str) -> ExplorerError:
        """The error that names this adapter."""
        return ExplorerError(f"The adapter {self.folder} {why}")


def read_adapter(folder: str | Path) -> Adapter:
    """Read an adapter folder.

    Raises:
        ExplorerError: a file is missing or damaged, the weights are a pickle, or the adapter is of a kind that is not
            one fixed difference to the base.
    """
    folder = Path(folder)
    config = read_json(folder / CONFIG)
    if not (folder / WEIGHTS).exists() and (folder / "adapter_model.bin").exists():
        raise ExplorerError(
            f"{folder} holds its weights as a pickle (adapter_model.bin); load it with peft and save_pretrained it "
            f"again: that writes {WEIGHTS}."
        )
    _refuse_kinds(folder, config)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    whole, bases = {}, {}
    for key, tensor in read_safetensors(folder / WEIGHTS).items():
        if ".base_layer.out_proj.lora_" in key:
            raise ExplorerError(
                f"The adapter {folder} targets a whole attention module ('{key}'), which versions of peft merge "
                "differently (0.21.2 adds the difference of out_proj twice, huggingface/peft pull request 3774); merge "
                "it with the peft it was trained with, and give the merged model."
            )
        name = key.removeprefix(WRAPPER).replace(".base_layer.", ".")
        if m := SHARED_BASES.fullmatch(key):
            bases[m[1]] = tensor
        elif m := PART.fullmatch(name):
            parts.setdefault(m["module"], {})[m["part"].removesuffix(".weight")] = tensor
        elif "lora_" in name:
            raise ExplorerError(f"{folder / WEIGHTS}: tensor '{key}' is of an unknown kind; it cannot be merged.")
        else:
            whole[name] = tensor
    if not parts:
        raise ExplorerError(f"{folder / WEIGHTS} holds no adapter of any module; was it saved whole?")
    return Adapter(folder, config, parts, whole, bases)


def adapter_deltas(folder: str | Path, base: Tensors) -> dict[str, torch.Tensor]:
    """The dense differences τ of an adapter, only for the tensors it changes, under the base's names.

    Args:
        folder: the adapter's folder.
        base: θ₀ in the naming the adapter was trained in (Hugging Face's for CLIP; convert afterwards), with or without
            a prefix such as ``vision_model.``.

    Returns:
        Tensor name → float32 difference of the base's shape.

    Raises:
        ExplorerError: as ``read_adapter``, or the adapter is for another base (names or shapes do not fit).
    """
    adapter = read_adapter(folder)
    names = _names_in(base, adapter)
    deltas = {}
    for module, parts in adapter.parts.items():
        key = names[module]
        if "randlora_lambda" in parts:
            delta = _randlora(adapter, module, parts, base[key])
        else:
            delta = _lora(adapter, module, parts, base[key])
            if "lora_B.bias" in parts:
                deltas[names[module, "bias"]] = parts["lora_B.bias"].float() * _scale(adapter, module, _rank(parts))
        deltas[key] = delta
    for name, value in adapter.whole.items():
        deltas[names[name]] = value.float() - base[names[name]].float()
    for key, delta in deltas.items():
        if delta.shape != base[key].shape:
            raise adapter.refuse(
                f"is for another base: its difference of '{key}' has shape {tuple(delta.shape)}, the base's tensor "
                f"{tuple(base[key].shape)}."
            )
    return deltas


def adapter_task_vector(folder: str | Path, base: Tensors) -> dict[str, torch.Tensor]:
    """The adapter as a task vector of the whole base: zero where it changes nothing.

    The zeros are views of one number and take no memory: do not write into them. Raises as ``adapter_deltas``.
    """
    import torch

    deltas = adapter_deltas(folder, base)
    zero = torch.zeros(())
    return {
        key: deltas[key] if key in deltas else zero.expand(tensor.shape)
        for key, tensor in base.items()
        if tensor.is_floating_point()
    }


def _refuse_kinds(folder: Path, config: Mapping[str, Any]) -> None:
    """Refuse what is not one fixed difference to the base's own weights."""
    kind = str(config.get("peft_type")).upper()
    if kind not in ("LORA", "RANDLORA"):
        raise ExplorerError(f"The adapter {folder} is of kind {kind}; only LORA and RANDLORA can be made dense.")
    if used := [name for name in NOT_A_DELTA if config.get(name)]:
        raise ExplorerError(f"The adapter {folder} cannot be made dense: {NOT_A_DELTA[used[0]]} ({used[0]}).")
    start = str(config.get("init_lora_weights", "")).lower()
    if start.startswith(CHANGED_BASE):
        raise ExplorerError(
            f"The adapter {folder} was initialised by {start}, which changes the base too; save it again with peft's "
            "path_initial_model_for_weight_conversion, which makes it an adapter of the original base."
        )


def _names_in(base: Tensors, adapter: Adapter) -> dict[Any, str]:
    """The base's name for every module, (module, "bias") and whole tensor of the adapter, with one shift of prefix."""
    wanted: dict[Any, str] = {name: name for name in adapter.whole}
    wanted |= {module: f"{module}.weight" for module in adapter.parts}
    wanted |= {(module, "bias"): f"{module}.bias" for module, parts in adapter.parts.items() if "lora_B.bias" in parts}
    fewest = list(wanted.values())
    for removed, added in (("", ""), *(("", p) for p in PREFIXES), *((p, "") for p in PREFIXES)):
        found = {
            item: key
            for item, name in wanted.items()
            if name.startswith(removed) and (key := added + name.removeprefix(removed)) in base
        }
        if len(found) == len(wanted):
            return found
        missing = [name for item, name in wanted.items() if item not in found]
        if len(missing) < len(fewest):
            fewest = missing
    more = f" and {len(fewest) - 1} more" if len(fewest) > 1 else ""
    raise adapter.refuse(
        f"changes '{fewest[0]}'{more}, which the base does not have; it is for another base (or the base is named in "
        "another layout)."
    )


def _rank(parts: Tensors) -> int:
    matrix = parts.get("lora_A", parts.get("lora_embedding_A"))
    return matrix.shape[0] if matrix is not None else 0


def _scale(adapter: Adapter, module: str, rank: int) -> float:
    """The factor s of one module: its own alpha and rank where a pattern names it."""
    config = adapter.config

    def own(patterns: str, default: str) -> float:
        named = config.get(patterns) or {}
        hit = next((value for key, value in named.items() if re.match(rf"(.*\.)?({key})$", module)), None)
        value = config.get(default) if hit is None else hit
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            raise adapter.refuse(f"has no usable {default} in {CONFIG}: {value!r}.")
        return value

    stated, alpha = own("rank_pattern", "r"), own("alpha_pattern", "lora_alpha")
    if stated != rank:
        raise adapter.refuse(f"says rank {stated} for '{module}' in {CONFIG}, but its matrices have rank {rank}.")
    return alpha / (rank**0.5 if config.get("use_rslora") else rank)


def _pair(adapter: Adapter, module: str, parts: Tensors, first: str, second: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of one module in float32."""
    for name in (first, second):
        if name not in parts:
            raise adapter.refuse(f"lacks {name} of '{module}'; the file is incomplete.")
    return parts[first].float(), parts[second].float()


def _lora(adapter: Adapter, module: str, parts: Tensors, weight: torch.Tensor) -> torch.Tensor:
    """τ of one LoRA or DoRA module, of the shape of ``weight`` if the adapter fits it."""
    import torch

    embedding = "lora_embedding_A" in parts
    names = ("lora_embedding_A", "lora_embedding_B") if embedding else ("lora_A", "lora_B")
    down, up = _pair(adapter, module, parts, *names)
    if up.flatten(1).shape[1] != down.shape[0]:
        raise adapter.refuse(f"has matrices of '{module}' that do not fit each other: a grouped or damaged layer.")
    transposed = embedding or (bool(adapter.config.get("fan_in_fan_out")) and down.ndim == 2)
    product = up.flatten(1) @ down.flatten(1) * _scale(adapter, module, down.shape[0])
    if "lora_magnitude_vector" not in parts:
        return product.T.contiguous() if transposed else product.reshape(up.shape[0], *down.shape[1:])
    if down.ndim != 2 or embedding or weight.shape != (product.T if transposed else product).shape:
        raise adapter.refuse(f"uses DoRA on '{module}', which does not fit the base or is no linear layer.")
    start = weight.float().T if transposed else weight.float()
    length = torch.linalg.norm(start + product, dim=1)
    scaled = (parts["lora_magnitude_vector"].float().flatten() / length)[:, None] * (start + product) - start
    return scaled.T.contiguous() if transposed else scaled


def _randlora(adapter: Adapter, module: str, parts: Tensors, weight: torch.Tensor) -> torch.Tensor:
    """τ of one RandLoRA module: the bases cut to the layer's size, Λ and Γ on the smaller one."""
    bases = {**adapter.bases, **{name: parts[name] for name in ("randlora_A", "randlora_B") if name in parts}}
    if len(bases) < 2:
        raise adapter.refuse(
            "was saved without its random bases, which depend on the machine that drew them; save it again with "
            "save_projection: true."
        )
    factors, gains = _pair(adapter, module, parts, "randlora_lambda", "randlora_gamma")
    rank, count = factors.shape
    small, large = sorted(weight.shape) if weight.ndim == 2 else (0, 0)
    a, b = bases["randlora_A"].float()[:, :, :small], bases["randlora_B"].float()[:large, :count]
    fits = gains.shape == (count, small) and a.shape == (rank, 1, small) and b.shape == (large, count, rank)
    config = adapter.config
    if not fits or not config.get("randlora_alpha") or config.get("r") != rank:
        raise adapter.refuse(
            f"is for another base: its matrices of '{module}' do not fit a weight of shape {tuple(weight.shape)}."
        )
    scaled = (factors[:, :, None] * a * gains[None]).flatten(end_dim=1)
    product = b.flatten(start_dim=1) @ scaled * (config["randlora_alpha"] / rank)
    turned = bool(config.get("fan_in_fan_out")) if small == large else weight.shape[0] == small
    return product.T.contiguous() if turned else product
