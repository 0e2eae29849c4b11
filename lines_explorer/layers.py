"""Which block a tensor belongs to, read from its name by architecture family.

A family is one row of ``FAMILIES``. A name that no row explains is refused: a wrong block number would scale a tensor
by another depth's factor, and nothing would show it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lines_explorer.errors import ExplorerError
from lines_explorer.schedule import Schedule


@dataclass(frozen=True)
class Family:
    """How one architecture family names its tensors. All patterns are regular expressions.

    Attributes:
        name: what the user is shown.
        prefix: what may stand before every name of the tower; one checkpoint uses one prefix.
        block: start of a block's tensor name, ending in the block number counted from 0.
        before: whole names, without prefix, of the tensors before the first block.
        after: whole names, without prefix, of the tensors after the last block.
        outside: whole names, never prefixed, that accompany the tower; they act after the last block.
    """

    name: str
    prefix: str
    block: str
    before: str
    after: str
    outside: str


FAMILIES = (
    Family(
        name="open_clip ViT",
        prefix=r"(?:visual\.)?",
        block=r"transformer\.resblocks\.(\d+)\.",
        before=r"class_embedding|positional_embedding|conv1\..+|patchnorm_pre_ln\..+|ln_pre\..+",
        after=r"ln_post\..+|attn_pool\..+|proj",
        outside=r"logit_scale|logit_bias",
    ),
    Family(
        name="Hugging Face CLIP vision",
        prefix=r"(?:vision_model\.)?",
        block=r"encoder\.layers\.(\d+)\.",
        before=r"embeddings\..+|pre_layrnorm\..+",
        after=r"post_layernorm\..+",
        outside=r"visual_projection\.weight|classifier\..+|logit_scale",
    ),
    Family(
        name="timm ViT",
        prefix=r"",
        block=r"blocks\.(\d+)\.",
        before=r"cls_token|dist_token|reg_token|pos_embed|patch_embed\..+|norm_pre\..+",
        after=r"norm\..+|fc_norm\..+|attn_pool\..+|head(?:_dist)?\..+",
        outside=r"logit_scale",
    ),
)

STACK = re.compile(r"((?:\w+\.)*?(?:blocks?|resblocks|layers?|h)\.)\d+\.")


@dataclass(frozen=True)
class Layout:
    """Where every tensor of a model sits.

    Attributes:
        family: name of the architecture family.
        depth: L, the number of blocks.
        position: tensor name → 0 before the blocks, 1…L in block l, L + 1 after the blocks.
    """

    family: str
    depth: int
    position: Mapping[str, int]


def layout_of(keys: Iterable[str]) -> Layout:
    """Place every tensor name of one model.

    Raises:
        ExplorerError: no known family (the message shows the names' pattern), two stacks of blocks, a tensor that is
            not part of the family, or a gap in the block numbers.
    """
    keys = list(keys)
    _refuse_two_stacks(keys)
    for family in FAMILIES:
        prefixes = {m[1] for key in keys if (m := re.match(f"({family.prefix}){family.block}", key))}
        if prefixes:
            return _layout(family, prefixes.pop(), keys)
    known = ", ".join(family.name for family in FAMILIES)
    raise ExplorerError(f"Unknown architecture: no blocks of {known} among tensors named {_patterns(keys)}.")


def tensor_factors(layout: Layout, schedule: Schedule, rule: str = "reference") -> dict[str, float]:
    """Tensor name → λ: the factor of its block, or outside the blocks the one ``rule`` gives (reference, depth)."""
    before, after = schedule.outer_factors(layout.depth, rule)
    factor_at = (before, *schedule.block_factors(layout.depth), after)
    return {key: factor_at[position] for key, position in layout.position.items()}


def _layout(family: Family, prefix: str, keys: list[str]) -> Layout:
    blocks = {key: int(m[1]) + 1 for key in keys if (m := re.match(re.escape(prefix) + family.block, key))}
    depth = max(blocks.values())
    if gaps := sorted(set(range(1, depth + 1)) - set(blocks.values())):
        missing = ", ".join(map(str, gaps))
        raise ExplorerError(f"Of {depth} blocks these have no tensors: {missing}; the checkpoint is incomplete.")
    position = {key: blocks[key] if key in blocks else _outer(family, prefix, key, depth) for key in keys}
    return Layout(family.name, depth, position)


def _outer(family: Family, prefix: str, key: str, depth: int) -> int:
    """0 or depth + 1 for a tensor outside the blocks."""
    name = key.removeprefix(prefix) if key.startswith(prefix) else ""
    if re.fullmatch(family.before, name):
        return 0
    if re.fullmatch(family.after, name) or re.fullmatch(family.outside, key):
        return depth + 1
    raise ExplorerError(
        f"Tensor '{key}' is not part of the {family.name} family; keep only the tensors of one image tower."
    )


def _refuse_two_stacks(keys: list[str]) -> None:
    stacks = sorted({m[1] for key in keys if (m := STACK.match(key))})
    if len(stacks) > 1:
        named = " and ".join(f"'{stack}#'" for stack in stacks)
        raise ExplorerError(
            f"The model has more than one stack of blocks ({named}), each with a depth of its own, which is not "
            "supported yet; keep only the tensors of one tower."
        )


def _patterns(keys: list[str]) -> str:
    """The three most frequent names, numbers written as #, for a message."""
    counts = Counter(re.sub(r"\d+", "#", key) for key in keys)
    return ", ".join(f"'{pattern}'" for pattern, _ in counts.most_common(3)) or "(there are none)"
