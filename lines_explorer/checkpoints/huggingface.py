"""CLIP's image tower in two namings: open_clip's ``visual.*`` and Hugging Face's ``vision_model.*``.

The conversion moves numbers and computes none, so it is exact in both directions: q, k and v are joined into
``in_proj`` or split from it, ``proj`` (width, D) is the transpose of ``visual_projection.weight`` (D, width), and all
others only change their names. Being linear, it converts task vectors as it converts weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    import torch

    from lines_explorer.checkpoints.files import Tensors

VISUAL = "visual."
VISION = "vision_model."
PROJECTION = "visual_projection.weight"
BLOCK, LAYER = "transformer.resblocks.{}.", "encoder.layers.{}."
BESIDE = re.compile(r"text_model\..+|(?:visual|text)_projection\.weight|logit_scale|classifier\..+")  # the tower

_OUTER = {
    "class_embedding": "embeddings.class_embedding",
    "positional_embedding": "embeddings.position_embedding.weight",
    "conv1.weight": "embeddings.patch_embedding.weight",
    "ln_pre.weight": "pre_layrnorm.weight",  # sic
    "ln_pre.bias": "pre_layrnorm.bias",
    "ln_post.weight": "post_layernorm.weight",
    "ln_post.bias": "post_layernorm.bias",
}
_BLOCK = {
    "ln_1": "layer_norm1",
    "attn.out_proj": "self_attn.out_proj",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_ACTIVATIONS = {"quick_gelu": True, "gelu": False}
_INTERPOLATION = {"bilinear": 2, "bicubic": 3}
_TEXT_STUB = {"context_length": 1, "vocab_size": 1, "width": 8, "heads": 1, "layers": 1}
_TRAINING_ONLY = {"patch_dropout", "output_tokens"}
_VISION_DEFAULTS = {  # of transformers' CLIPVisionConfig: what config.json leaves out
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_channels": 3, "image_size": 224, "patch_size": 32, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
    "projection_dim": 512,
}  # fmt: skip


@dataclass(frozen=True)
class ImageTower:
    """The architecture of one CLIP vision transformer, as both sides' configs state it.

    Attributes:
        width, layers, heads, mlp_width: of the transformer; heads divide the width.
        patch_size, image_size: in pixels, square.
        embed_dim: D, length of the image feature.
        quick_gelu: whether the activation is QuickGELU (OpenAI's weights need it) and not GELU.
        layer_norm_eps: ε of all layer norms.
        quick_gelu_from: who said so, for people; not compared.
    """

    width: int
    layers: int
    heads: int
    mlp_width: int
    patch_size: int
    image_size: int
    embed_dim: int
    quick_gelu: bool
    layer_norm_eps: float = 1e-5
    quick_gelu_from: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.width % self.heads or self.image_size % self.patch_size:
            raise ExplorerError(
                f"{self.heads} heads must divide the width {self.width}, and patches of {self.patch_size} pixels the "
                f"image size {self.image_size}."
            )

    @classmethod
    def from_hugging_face(cls, config: Mapping[str, Any]) -> ImageTower:
        """Read a config.json of CLIPVisionModel(WithProjection) or CLIPModel; what it leaves out has CLIP's defaults.

        Raises:
            ExplorerError: another kind of model, or something that open_clip's vision transformer cannot express.
        """
        kind = config.get("model_type")
        if kind not in ("clip", "clip_vision_model"):
            raise ExplorerError(f"config.json describes a {kind!r} model; only CLIP's image tower can be converted.")
        vision = config
        if kind == "clip":
            vision = {**(config.get("vision_config") or {}), **(config.get("vision_config_dict") or {})}
            vision["projection_dim"] = config.get("projection_dim", _VISION_DEFAULTS["projection_dim"])
        values = {name: vision.get(name, default) for name, default in _VISION_DEFAULTS.items()}
        if values["hidden_act"] not in _ACTIVATIONS or values["num_channels"] != 3:
            raise ExplorerError(
                f"config.json asks for hidden_act {values['hidden_act']!r} and {values['num_channels']} channels; only "
                f"{' or '.join(_ACTIVATIONS)} with 3 channels can be converted."
            )
        stated = "hidden_act in config.json" if "hidden_act" in vision else "the default hidden_act of CLIP"
        return cls(
            width=values["hidden_size"],
            layers=values["num_hidden_layers"],
            heads=values["num_attention_heads"],
            mlp_width=values["intermediate_size"],
            patch_size=_square("patch_size", values["patch_size"]),
            image_size=_square("image_size", values["image_size"]),
            embed_dim=values["projection_dim"],
            quick_gelu=_ACTIVATIONS[values["hidden_act"]],
            layer_norm_eps=values["layer_norm_eps"],
            quick_gelu_from=stated,
        )

    @classmethod
    def from_open_clip(cls, config: Mapping[str, Any]) -> ImageTower:
        """Read an open_clip model config (embed_dim, vision_cfg, quick_gelu).

        Raises:
            ExplorerError: naming the option that Hugging Face's CLIP cannot express.
        """
        from open_clip.model import CLIPVisionCfg

        plain = {f.name: f.default for f in fields(CLIPVisionCfg) if f.default is not MISSING}
        vision = {**plain, **config["vision_cfg"]}
        norm = dict(vision.pop("norm_kwargs") or {})
        eps = norm.pop("eps", 1e-5)
        sizes = {"layers", "width", "head_width", "mlp_ratio", "patch_size", "image_size"}
        odd = {k: v for k, v in vision.items() if k not in sizes | _TRAINING_ONLY and v != plain.get(k)}
        odd |= {f"norm_kwargs.{name}": value for name, value in norm.items()}
        if not isinstance(vision["layers"], int):
            odd["layers"] = vision["layers"]
        if odd:
            named = ", ".join(f"{name}: {value!r}" for name, value in odd.items())
            raise ExplorerError(f"Hugging Face's CLIP cannot express vision_cfg {named}; write it for open_clip.")
        stated = "quick_gelu in the open_clip config" if "quick_gelu" in config else "open_clip's default"
        return cls(
            width=vision["width"],
            layers=vision["layers"],
            heads=vision["width"] // vision["head_width"],
            mlp_width=int(vision["width"] * vision["mlp_ratio"]),
            patch_size=_square("patch_size", vision["patch_size"]),
            image_size=_square("image_size", vision["image_size"]),
            embed_dim=config["embed_dim"],
            quick_gelu=bool(config.get("quick_gelu", False)),
            layer_norm_eps=eps,
            quick_gelu_from=stated,
        )

    def check(self, tensors: Tensors) -> None:
        """Refuse open_clip tensors ``visual.*`` whose shapes are not those of this architecture.

        Raises:
            ExplorerError: naming the size, and what both sides say.
        """
        found = _sizes(tensors)
        for name, value in found.items():
            if value != getattr(self, name):
                raise ExplorerError(
                    f"The config says {name} {getattr(self, name)}, but the tensors' shapes say {value}; config and "
                    "weights are of different models."
                )

    def hugging_face(self) -> dict[str, Any]:
        """The config.json of a CLIPVisionModelWithProjection."""
        return {
            "architectures": ["CLIPVisionModelWithProjection"],
            "model_type": "clip_vision_model",
            "hidden_size": self.width,
            "intermediate_size": self.mlp_width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_channels": 3,
            "patch_size": self.patch_size,
            "image_size": self.image_size,
            "projection_dim": self.embed_dim,
            "hidden_act": "quick_gelu" if self.quick_gelu else "gelu",
            "layer_norm_eps": self.layer_norm_eps,
            "attention_dropout": 0.0,
            "torch_dtype": "float32",
        }

    def open_clip(self, text_cfg: Mapping[str, Any] = _TEXT_STUB) -> dict[str, Any]:
        """An open_clip model config; ``quick_gelu`` is always said. The default text tower is a stub of one token."""
        vision = {
            "layers": self.layers,
            "width": self.width,
            "head_width": self.width // self.heads,
            "mlp_ratio": self.mlp_width / self.width,
            "patch_size": self.patch_size,
            "image_size": self.image_size,
        }
        if int(self.width * vision["mlp_ratio"]) != self.mlp_width:
            raise ExplorerError(f"open_clip cannot express an MLP of width {self.mlp_width} at width {self.width}.")
        if self.layer_norm_eps != 1e-5:
            vision["norm_kwargs"] = {"eps": self.layer_norm_eps}
        return {
            "embed_dim": self.embed_dim,
            "vision_cfg": vision,
            "text_cfg": dict(text_cfg),
            "quick_gelu": self.quick_gelu,
        }


def to_open_clip(tensors: Tensors, projection: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    """Hugging Face tensors → open_clip's ``visual.*`` (and ``logit_scale``, where a CLIPModel has it).

    Args:
        tensors: of a CLIPVisionModel, CLIPVisionModelWithProjection or CLIPModel, of any version: with or without the
            prefix ``vision_model.``, with or without the old integer ``position_ids`` (dropped: they are no weights).
            A text tower or a classifier beside the image tower is left out.
        projection: (D, width), the base's ``visual_projection.weight``, for an expert saved without it.

    Raises:
        ExplorerError: a tensor is missing, of another shape, or unknown.
    """
    import torch

    prefix = _tower_prefix(tensors)
    rest = {
        key.removeprefix(prefix): tensor
        for key, tensor in tensors.items()
        if key.startswith(prefix) and not key.endswith("position_ids") and (prefix or not BESIDE.fullmatch(key))
    }

    def take(name: str) -> torch.Tensor:
        if name not in rest:
            raise ExplorerError(f"Tensor '{prefix}{name}' of CLIP's image tower is missing; the file is incomplete.")
        return rest.pop(name)

    projection = tensors.get(PROJECTION, projection)
    if projection is None:
        raise ExplorerError(f"There is no {PROJECTION} (a CLIPVisionModel without projection); give the base's.")
    state = {VISUAL + ours: take(theirs) for ours, theirs in _OUTER.items()}
    for block in range(_depth(rest, LAYER)):
        ours, theirs = VISUAL + BLOCK.format(block), LAYER.format(block)
        for kind in ("weight", "bias"):
            parts = [take(f"{theirs}{name}.{kind}") for name in _QKV]
            if len({part.shape for part in parts}) > 1:
                raise ExplorerError(f"{prefix}{theirs}self_attn: q, k and v differ in shape; this is no CLIP tower.")
            state[f"{ours}attn.in_proj_{kind}"] = torch.cat(parts)
            state |= {f"{ours}{mine}.{kind}": take(f"{theirs}{name}.{kind}") for mine, name in _BLOCK.items()}
    if rest:
        raise ExplorerError(f"Tensor '{prefix}{min(rest)}' is not part of CLIP's image tower; it cannot be converted.")
    state[VISUAL + "proj"] = projection.T.contiguous()
    return state | {"logit_scale": tensors["logit_scale"]} if "logit_scale" in tensors else state


def to_hugging_face(tensors: Tensors) -> dict[str, torch.Tensor]:
    """open_clip's ``visual.*`` → the tensors of a CLIPVisionModelWithProjection; other tensors are left out.

    Raises:
        ExplorerError: a tensor is missing, of a wrong shape, or unknown (a tower that Hugging Face's CLIP cannot hold).
    """
    rest = {key.removeprefix(VISUAL): tensor for key, tensor in tensors.items() if key.startswith(VISUAL)}

    def take(name: str) -> torch.Tensor:
        if name not in rest:
            raise ExplorerError(f"Tensor '{VISUAL}{name}' of CLIP's image tower is missing; it cannot be converted.")
        return rest.pop(name)

    state = {VISION + theirs: take(ours) for ours, theirs in _OUTER.items()}
    for block in range(_depth(rest, BLOCK)):
        ours, theirs = BLOCK.format(block), VISION + LAYER.format(block)
        for kind in ("weight", "bias"):
            joined = take(f"{ours}attn.in_proj_{kind}")
            if joined.shape[0] % 3:
                raise ExplorerError(f"Tensor '{VISUAL}{ours}attn.in_proj_{kind}' does not hold q, k and v equally.")
            parts = zip(_QKV, joined.chunk(3), strict=True)
            state |= {f"{theirs}{name}.{kind}": part.contiguous() for name, part in parts}
            state |= {f"{theirs}{name}.{kind}": take(f"{ours}{mine}.{kind}") for mine, name in _BLOCK.items()}
    state[PROJECTION] = take("proj").T.contiguous()
    if rest:
        raise ExplorerError(f"Tensor '{VISUAL}{min(rest)}' has no place in Hugging Face's CLIP; use open_clip.")
    return state


def preprocessor_config(image_size: int, preprocess: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json that does what open_clip's ``preprocess_cfg`` (mean, std, …) says.

    Raises:
        ExplorerError: a way of resizing that CLIPImageProcessor does not have.
    """
    interpolation = preprocess.get("interpolation", "bicubic")
    mode = preprocess.get("resize_mode", "shortest")
    if interpolation not in _INTERPOLATION or mode != "shortest":
        raise ExplorerError(f"Hugging Face's CLIP cannot resize by {mode} with {interpolation}; use open_clip.")
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": image_size},
        "resample": _INTERPOLATION[interpolation],
        "do_center_crop": True,
        "crop_size": {"height": image_size, "width": image_size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocess["mean"]),
        "image_std": list(preprocess["std"]),
    }


def preprocess_cfg(config: Mapping[str, Any]) -> dict[str, Any]:
    """A preprocessor_config.json → open_clip's preprocess config (mean, std, interpolation, resize_mode).

    Raises:
        ExplorerError: a step that is left out or that open_clip does not have.
    """
    names = {number: name for name, number in _INTERPOLATION.items()}
    steps = ("do_resize", "do_center_crop", "do_normalize", "do_rescale")
    if skipped := [step for step in steps if not config.get(step, True)]:
        raise ExplorerError(f"preprocessor_config.json has {skipped[0]}: false; open_clip always does this step.")
    if (resample := config.get("resample", 3)) not in names:
        raise ExplorerError(f"preprocessor_config.json has resample {resample}; only 2 and 3 can be converted.")
    if "image_mean" not in config or "image_std" not in config:
        raise ExplorerError("preprocessor_config.json lacks image_mean or image_std; add the model's own.")
    return {
        "mean": list(config["image_mean"]),
        "std": list(config["image_std"]),
        "interpolation": names[resample],
        "resize_mode": "shortest",
    }


def _sizes(tensors: Tensors) -> dict[str, int]:
    """What the shapes of ``visual.*`` tell about the architecture."""
    image_side = {key: tensor for key, tensor in tensors.items() if key.startswith(VISUAL)}
    shapes = {key.removeprefix(VISUAL): tuple(tensor.shape) for key, tensor in image_side.items()}
    try:
        width, _, patch, _ = shapes["conv1.weight"]
        side = round((shapes["positional_embedding"][0] - 1) ** 0.5)
        return {
            "width": width,
            "layers": _depth(shapes, BLOCK),
            "mlp_width": shapes[BLOCK.format(0) + "mlp.c_fc.weight"][0],
            "patch_size": patch,
            "image_size": side * patch,
            "embed_dim": shapes["proj"][1],
        }
    except (KeyError, ValueError, IndexError) as fault:
        raise ExplorerError(f"The tensors are not those of an open_clip vision transformer ({fault}).") from fault


def _tower_prefix(tensors: Tensors) -> str:
    """What stands before the tower's names: ``vision_model.``, nothing, or either after another prefix."""
    marker = _OUTER["class_embedding"]
    found = [key.removesuffix(marker) for key in tensors if key == marker or key.endswith("." + marker)]
    if len(found) != 1:
        raise ExplorerError(f"A CLIP image tower has one tensor …{marker}; here are {len(found)}.")
    return found[0]


def _depth(names: Mapping[str, Any], block: str) -> int:
    pattern = re.escape(block).replace(re.escape("{}"), r"(\d+)")
    return max((int(m[1]) + 1 for name in names if (m := re.match(pattern, name))), default=0)


def _square(name: str, size: int | list[int]) -> int:
    if isinstance(size, list | tuple):
        if len(set(size)) != 1:
            raise ExplorerError(f"{name} {size} is not square; it cannot be converted.")
        return int(size[0])
    return int(size)
