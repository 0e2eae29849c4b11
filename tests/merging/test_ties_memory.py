"""TIES beside a plain implementation that stacks all task vectors: equal results, and what each of the two costs.

``python -m tests.merging.test_ties_memory`` prints the costs on eight ViT-B/32-sized task vectors.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from lines_explorer.merging import METHODS

Vectors = list[dict[str, torch.Tensor]]


def vit_b32_shapes() -> dict[str, tuple[int, ...]]:
    """The image tower of CLIP ViT-B/32: 87.8 million numbers."""
    width, shapes = (
        768,
        {"class_embedding": (768,), "positional_embedding": (50, 768), "conv1.weight": (768, 3, 32, 32)},
    )
    for block in range(12):
        stem = f"transformer.resblocks.{block}."
        shapes |= {f"{stem}{norm}.{kind}": (width,) for norm in ("ln_1", "ln_2") for kind in ("weight", "bias")}
        shapes |= {f"{stem}attn.in_proj_weight": (3 * width, width), f"{stem}attn.in_proj_bias": (3 * width,)}
        shapes |= {f"{stem}attn.out_proj.weight": (width, width), f"{stem}attn.out_proj.bias": (width,)}
        shapes |= {f"{stem}mlp.c_fc.weight": (4 * width, width), f"{stem}mlp.c_fc.bias": (4 * width,)}
        shapes |= {f"{stem}mlp.c_proj.weight": (width, 4 * width), f"{stem}mlp.c_proj.bias": (width,)}
    norms = {f"{norm}.{kind}": (width,) for norm in ("ln_pre", "ln_post") for kind in ("weight", "bias")}
    return shapes | norms | {"proj": (width, 512)}


def random_task_vectors(shapes: Mapping[str, tuple[int, ...]], number: int) -> Vectors:
    generator = torch.Generator().manual_seed(0)
    return [{key: torch.randn(s, generator=generator) * 1e-3 for key, s in shapes.items()} for _ in range(number)]


def plain_ties(vectors: Vectors, k: float = 20.0) -> dict[str, torch.Tensor]:
    """TIES as it is usually written: one (T, N) matrix, ``kthvalue``, boolean masks of the same size."""
    rows = torch.stack([torch.cat([t.reshape(-1) for t in vector.values()]) for vector in vectors])
    n = rows.shape[1]
    floors = rows.abs().kthvalue(n - round(n * k / 100) + 1, dim=1, keepdim=True).values
    rows = torch.where(rows.abs() >= floors, rows, 0.0)
    agrees = (rows.sign() == rows.sum(dim=0).sign()) & (rows != 0)
    merged = (rows * agrees).sum(dim=0) / agrees.sum(dim=0).clamp(min=1)
    parts = merged.split([t.numel() for t in vectors[0].values()])
    return {key: part.view(t.shape) for part, (key, t) in zip(parts, vectors[0].items(), strict=True)}


def cost(function: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and bytes of resident memory at the peak beyond those before; Linux only."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    before, started = _resident("VmRSS"), time.perf_counter()
    function()
    return time.perf_counter() - started, _resident("VmHWM") - before


def ties_costs(shapes: Mapping[str, tuple[int, ...]], number: int = 8) -> dict[str, tuple[float, int]]:
    """(seconds, peak bytes beyond the task vectors) of TIES here and of the plain one, on the same vectors.

    With ``vit_b32_shapes()`` and 8 vectors it needs about 12 GB.
    """
    vectors = random_task_vectors(shapes, number)
    return {"chunked": cost(lambda: METHODS["ties"].merge(vectors)), "plain": cost(lambda: plain_ties(vectors))}


def _resident(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii").split()
    return int(status[status.index(f"{field}:") + 1]) * 1024


def test_the_shapes_are_vit_b32s():
    sizes = [torch.Size(shape).numel() for shape in vit_b32_shapes().values()]
    assert sum(sizes) == 87_849_216


def test_both_merge_alike():
    vectors = random_task_vectors({"a": (30, 40), "b": (50,), "c": (2, 3, 4)}, 5)
    merged, plain = METHODS["ties"].merge(vectors), plain_ties(vectors)
    assert all(torch.allclose(merged[key], plain[key], rtol=1e-5, atol=1e-9) for key in merged)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
def test_no_copy_of_all_task_vectors_is_made():
    shapes = {f"w{number}": (64, 1024) for number in range(32)}  # 32 tensors of 256 KB, 8 experts: 64 MB
    costs = ties_costs(shapes)
    whole = 8 * 8 * 2**20
    assert costs["plain"][1] > whole
    assert costs["chunked"][1] < costs["plain"][1] / 2


def report(costs: Mapping[str, tuple[float, int]]) -> str:
    """The costs, and how many times the plain implementation's they are, one line each."""
    seconds, peak = costs["plain"]
    return "\n".join(
        f"{name}: {found[0]:.1f} s ({found[0] / seconds:.2f} of plain), "
        f"{found[1] / 2**30:.2f} GiB beyond the task vectors ({found[1] / peak:.2f} of plain)"
        for name, found in costs.items()
    )


def test_the_report_names_both():
    assert report({"chunked": (1.0, 2**30), "plain": (2.0, 2**32)}).splitlines() == [
        "chunked: 1.0 s (0.50 of plain), 1.00 GiB beyond the task vectors (0.25 of plain)",
        "plain: 2.0 s (1.00 of plain), 4.00 GiB beyond the task vectors (1.00 of plain)",
    ]


if __name__ == "__main__":
    sys.stdout.write(report(ties_costs(vit_b32_shapes())) + "\n")
