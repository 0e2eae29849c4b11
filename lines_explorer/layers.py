"""Which block a tensor belongs to, read from its name by architecture family.

The families are rows of a table (``families.py``). A name that no row explains is refused: a wrong block number would
scale a tensor by another depth's factor, and nothing would show it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lines_explorer.errors import ExplorerError
from lines_explorer.families import FAMILIES, Family, Stack
from lines_explorer.schedule import Schedule

ADVICE = "add a row to FAMILIES in lines_explorer/families.py (CONTRIBUTING.md, 'Add an architecture family')"


@dataclass(frozen=True)
class Layout:
    """Where every tensor of a model sits.

    Attributes:
        family: name of the architecture family.
        depth: L, the number of blocks; of the deepest stack where there are two.
        position: tensor name → 0 before the blocks, 1…L in block l, L + 1 after the blocks, of the tensor's stack.
        stacks: name of each stack → its own L; most models have one.
        stack: tensor name → the stack it belongs to.
    """

    family: str
    depth: int
    position: Mapping[str, int]
    stacks: Mapping[str, int]
    stack: Mapping[str, str]


def layout_of(keys: Iterable[str]) -> Layout:
    """Place every tensor name of one model.

    Raises:
        ExplorerError: no known family (the message shows the names' pattern and how to add a row), a tensor that is not
            part of the family, or a gap in the block numbers.
    """
    keys = list(keys)
    attempts = [attempt for family in FAMILIES if (attempt := _Attempt.of(family, keys))]
    if not attempts:
        known = ", ".join(dict.fromkeys(family.name for family in FAMILIES))
        raise ExplorerError(
            f"Unknown architecture: no blocks of {known} among tensors named {_patterns(keys)}; {ADVICE}."
        )
    best = min(attempts, key=lambda attempt: len(attempt.strangers))
    if best.strangers:
        more = f" and {len(best.strangers) - 1} more" if len(best.strangers) > 1 else ""
        raise ExplorerError(
            f"Tensor '{best.strangers[0]}'{more} is not part of the {best.family.name} family, which fits the names "
            f"best; keep only the tensors of one model, or {ADVICE}."
        )
    for stack, numbers in best.blocks.items():
        _refuse_gaps(stack, set(numbers.values()))
    return best.layout()


def tensor_factors(layout: Layout, schedule: Schedule, rule: str = "reference") -> dict[str, float]:
    """Tensor name → λ: the factor of its block, or outside the blocks the one ``rule`` gives (reference, depth).

    Every stack follows the schedule over its own depth.

    Raises:
        ExplorerError: an unknown rule, or a free schedule with another number of factors than a stack has blocks.
    """
    factors = {}
    for stack, depth in layout.stacks.items():
        before, after = schedule.outer_factors(depth, rule)
        factors[stack] = (before, *schedule.block_factors(depth), after)
    return {key: factors[layout.stack[key]][position] for key, position in layout.position.items()}


Numbers = tuple[int, ...]


@dataclass
class _Attempt:
    """One family tried on the names of one model.

    Attributes:
        blocks: stack → tensor name → its numbers: (block,) or (stage, block); only stacks that are there.
        outer: tensor name → its stack and whether it comes after the blocks.
        joints: tensor name → its stack and the number of the stage it leads to.
        strangers: names that the family does not explain.
    """

    family: Family
    blocks: dict[Stack, dict[str, Numbers]] = field(default_factory=dict)
    outer: dict[str, tuple[Stack, bool]] = field(default_factory=dict)
    joints: dict[str, tuple[Stack, int]] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, family: Family, keys: list[str]) -> "_Attempt | None":
        """The family's reading of the names; None when none of its blocks is among them."""
        attempt = cls(family)
        prefixes = {}
        for stack in family.stacks:
            matches = {key: m for key in keys if (m := re.match(f"({stack.prefix}){stack.block}", key))}
            if matches:
                prefix = Counter(m[1] for m in matches.values()).most_common(1)[0][0]
                prefixes[stack] = re.escape(prefix)
                numbers = {key: tuple(map(int, m.groups()[1:])) for key, m in matches.items() if m[1] == prefix}
                attempt.blocks[stack] = numbers
        if not attempt.blocks:
            return None
        inside = {key for numbers in attempt.blocks.values() for key in numbers}
        for key in keys:
            if key not in inside:
                attempt._place_outer(key, prefixes)
        return attempt

    def _place_outer(self, key: str, prefixes: Mapping[Stack, str]) -> None:
        """Place a name outside the blocks; those of an absent stack go with the last one that is there."""
        present = list(self.blocks)
        for stack in self.family.stacks:
            prefix, owner = prefixes.get(stack, stack.prefix), stack if stack in self.blocks else present[-1]
            for pattern, after in ((stack.before, False), (stack.after, True)):
                if re.fullmatch(f"{prefix}(?:{pattern})", key):
                    self.outer[key] = owner, after
                    return
            if stack in self.blocks and stack.between and (m := re.match(prefix + stack.between, key)):
                self.joints[key] = stack, int(m[1])
                return
        for pattern, owner, after in ((self.family.first, present[0], False), (self.family.last, present[-1], True)):
            if pattern and re.fullmatch(pattern, key):
                self.outer[key] = owner, after
                return
        self.strangers.append(key)

    def layout(self) -> Layout:
        position, owner, depths = {}, {}, {}
        for stack, numbers in self.blocks.items():
            ordered = sorted(set(numbers.values()))
            rank = {number: place for place, number in enumerate(ordered, start=1)}
            depths[stack.name] = len(ordered)
            position |= {key: rank[number] for key, number in numbers.items()}
            joints = {key: stage for key, (of, stage) in self.joints.items() if of == stack}
            position |= {key: rank[min(n for n in ordered if n >= (stage,))] for key, stage in joints.items()}
            outer = {key: after for key, (of, after) in self.outer.items() if of == stack}
            position |= {key: len(ordered) + 1 if after else 0 for key, after in outer.items()}
            owner |= dict.fromkeys([*numbers, *joints, *outer], stack.name)
        return Layout(self.family.name, max(depths.values()), position, depths, owner)


def _refuse_gaps(stack: Stack, found: set[Numbers]) -> None:
    """Refuse a stack in which a block, or a whole stage, has no tensors."""
    if not stack.stages:
        depth = max(found)[0] + 1
        missing = [str(block + 1) for block in range(depth) if (block,) not in found]
        if missing:
            raise ExplorerError(
                f"Of {depth} blocks these have no tensors: {', '.join(missing)}; the checkpoint is incomplete."
            )
        return
    if unknown := sorted({stage for stage, _ in found} - set(stack.stages)):
        raise ExplorerError(f"Stage {unknown[0]} is unknown; there are stages {_listed(stack.stages)}: {ADVICE}.")
    for stage in stack.stages:
        blocks = {block for number, block in found if number == stage}
        if missing := set(range(max(blocks, default=0) + 1)) - blocks:
            raise ExplorerError(
                f"Stage {stage} has no tensors of its blocks {_listed(missing)} (counted from 0); the checkpoint is "
                "incomplete."
            )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _patterns(keys: list[str]) -> str:
    """The three most frequent names, numbers written as #, for a message."""
    counts = Counter(re.sub(r"\d+", "#", key) for key in keys)
    return ", ".join(f"'{pattern}'" for pattern, _ in counts.most_common(3)) or "(there are none)"
