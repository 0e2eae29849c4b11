"""The pre-training corpus: captioned icons and glyphs, and unlabelled training pictures of every domain.

``Corpus`` holds it in groups (icons, glyphs and one per task).  A group's teacher features are standardised and
reduced within the group, so that the base must learn what tells the group's own pictures apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lines_explorer.training import data, teacher
from lines_explorer.training.sources import cache_root
from lines_explorer.training.text import TextSpace, embed_unique, sentence_vectors

CAPTIONED = ("icons", "glyphs")
NAMELESS = ("glyphs", "digits", "scripts", "letters", "silhouettes", "flags", "fashion", "sprites")
"""Groups in which the teacher's ImageNet classes say next to nothing: no glyphs, masks, flags or tiles are among them,
and it does not recognise clothes in 28 grey pixels."""

TEACHER = 128
"""Principal directions of the teacher's features kept per group."""

TEMPLATE = "a picture of {}."


@dataclass(frozen=True)
class Group:
    """Pictures (n, 32, 32, 3) uint8, teacher vectors (n, 128), ImageNet logits (n, 1000), caption rows (n,) or None."""

    name: str
    pixels: np.ndarray
    teacher: Tensor
    logits: Tensor
    captions: np.ndarray | None


@dataclass(frozen=True)
class Corpus:
    """All groups and the text: ``captions`` (2, m, D): bare and templated; ``glyph_rows``; ``names`` (1000, D)."""

    groups: dict[str, Group]
    captions: Tensor
    glyph_rows: np.ndarray
    names: Tensor
    space: TextSpace


def whitened(features: np.ndarray, dimension: int = TEACHER) -> Tensor:
    """Teacher features (n, 1280) → unit vectors (n, dimension) on the group's own partly whitened directions."""
    x = torch.from_numpy(features).float()
    x = (x - x.mean(0)) / (x.std(0) + 1e-3)
    _, scales, directions = torch.pca_lowrank(x, dimension, center=False, niter=3)
    return F.normalize(x @ directions / scales.sqrt(), dim=-1)


def build(dimension: int) -> Corpus:
    """The whole corpus, from the build cache where its parts were computed before. ``dimension``: text vectors."""
    torch.manual_seed(0)
    cache = cache_root()
    (cache / "teacher").mkdir(parents=True, exist_ok=True)
    pictures, captions = {}, {}
    for name in CAPTIONED:
        pictures[name], captions[name] = _captioned(name)
    for name in data.TASKS:
        pictures[name] = data.split_of(data.task(name), "train")[0]
    sentences, rows = _sentences(captions["icons"], captions["glyphs"])
    space = TextSpace.fit(sentences.flatten(0, 1), dimension)
    groups = {}
    for name, pixels in pictures.items():
        features, logits = teacher.looked(pixels, cache / "teacher" / f"{name}.npz", name)
        groups[name] = Group(name, pixels, whitened(features), torch.from_numpy(logits), rows.get(name))
    names = space(sentence_vectors([TEMPLATE.format(name.split(",")[0]) for name in teacher.class_names()]))
    text = torch.stack([space(variant) for variant in sentences])
    return Corpus(groups, text, np.unique(rows["glyphs"]), names, space)


def _captioned(name: str) -> tuple[np.ndarray, list[str]]:
    """Pictures and captions of a captioned group, built once."""
    path = cache_root() / f"{name.removesuffix('s')}_corpus.npz"
    if not path.is_file():
        from lines_explorer.training import glyph_corpus, icon_corpus

        built = (icon_corpus if name == "icons" else glyph_corpus).build()
        partial = path.with_suffix(".partial.npz")
        np.savez_compressed(partial, pixels=built[0], captions=np.array(built[1]))
        partial.rename(path)
    with np.load(path) as stored:
        return stored["pixels"], without_categories([str(caption) for caption in stored["captions"]])


def without_categories(captions: list[str]) -> list[str]:
    """Captions 'name, tag, tag' without tags that are no caption's name ('moneyshopping', 'uiactions')."""
    names = {caption.split(", ")[0] for caption in captions}
    split = [caption.split(", ") for caption in captions]
    return [", ".join([name, *[tag for tag in tags if tag in names and tag != name]]) for name, *tags in split]


def _sentences(icons: list[str], glyphs: list[str]) -> tuple[Tensor, dict[str, np.ndarray]]:
    """Sentence vectors (2, m, 384) of the distinct captions, bare and templated, and each picture's row."""
    path = cache_root() / "sentences.npz"
    distinct = np.array(sorted({*icons, *glyphs}))
    stored = np.load(path) if path.is_file() else None
    if stored is None or not np.array_equal(stored["captions"], distinct):
        bare, rows = embed_unique([str(caption) for caption in distinct])
        templated, templated_rows = embed_unique([TEMPLATE.format(caption) for caption in distinct])
        vectors = torch.stack([bare[rows], templated[templated_rows]])
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, captions=distinct, vectors=vectors.half().numpy())
        partial.rename(path)
        stored = np.load(path)
    row = {str(caption): index for index, caption in enumerate(distinct)}
    rows = {"icons": np.array([row[c] for c in icons]), "glyphs": np.array([row[c] for c in glyphs])}
    return torch.from_numpy(stored["vectors"]).float(), rows
