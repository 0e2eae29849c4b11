"""A page that is used for long: hashes that make no sense, and hundreds of updates that leave nothing behind."""

from __future__ import annotations

import json
import random
from urllib.parse import quote

from lines_explorer.ui.handlers import Desk

VALID = (
    "suite=tiny&mode=edit&target=places&schedule=lines&alpha=0.2&beta=0.6&split=validation&view=all&surface=target",
    "mode=many&tasks=shapes,colours&method=ties&set=k:60&schedule=constant&scale=0.5&surface=score",
    "mode=many&tasks=shapes,colours,places&method=sum&schedule=lines&norms=1&beta=0.3&hide=method,beta&view=plane",
    "mode=negation&target=shapes&floor=0.9&alpha=-0.2&beta=-0.4&guide=lesson-half",
    "mode=edit&schedule=free&factors=0.3,0.65,1&rest=0.3&pin=mode%3Dedit%26target%3Dshapes%26alpha%3D0.4%26beta%3D0.1",
    "mode=robustness&target=shapes&alpha=0.3&beta=0.3&guide=story-forgets&split=test",
)
BAD = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e308", "9" * 400, "0x10", "", "null", "undefined", "[]", "{}",
    "<b>x</b>", "%", "%zz", "%00", "%F0%9F", "true", "__proto__", "constructor", "../..", "1,2,3", ",,,", "−0.5", "½",
)  # fmt: skip
ROUNDS, PACED = 1000, 50
HASHES = """async ([hashes, every]) => {
    const heard = (target, name) => new Promise((done) => target.addEventListener(name, done, { once: true }));
    for (const [i, hash] of hashes.entries()) {
        const awaited = i % every === 0;
        const told = awaited ? heard(document, 'lx:moved') : null;
        location.hash = awaited ? `${hash}&turn=${i}` : hash;
        if (told) await told;
        else if (i % 10 === 0) await new Promise((done) => setTimeout(done));
    }
}"""
UPDATES = """async ([values, leak]) => {
    const slider = document.querySelector('#lx-gamma input[type=range]');
    for (const value of values) {
        const told = new Promise((done) => document.addEventListener('lx:moved', done, { once: true }));
        slider.value = value;
        slider.dispatchEvent(new Event('input', { bubbles: true }));
        await told;
        if (leak) (window.leak ??= []).push(document.createElement('p'), new Array(2000).fill(value + Math.random()));
    }
}"""


def fuzzed(chance: random.Random) -> str:
    """A valid link with something wrong in it, or nonsense."""
    if chance.random() < 0.15:
        letters = [
            chr(chance.choice((chance.randrange(1, 0x250), chance.randrange(0x2000, 0xD800)))) for _ in range(40)
        ]
        return "#" + "".join(letters)
    words = [word.split("=", 1) for word in chance.choice(VALID).split("&")]
    for _ in range(chance.randrange(1, 5)):
        word, other = chance.choice(words), chance.choice(chance.choice(VALID).split("&")).split("=", 1)
        kind = chance.randrange(7)
        if kind == 0:
            word[1] = chance.choice(BAD)
        elif kind == 1:
            word[1] = str(chance.choice((-1, 1)) * chance.random() * 10 ** chance.randrange(-5, 300))
        elif kind == 2:
            words.append([word[0], other[1]])
        elif kind == 3:
            word[0] = chance.choice(("evil", "", "Mode", "αβ", word[0] * 30))
        elif kind == 4:
            word[1] = quote(quote(word[1], safe=""), safe="")
        elif kind == 5:
            word[1] = word[1][: chance.randrange(len(word[1]) + 1)]
        else:
            words.insert(chance.randrange(len(words)), list(other))
    return "#" + "&".join("=".join(word) for word in words)


def test_a_thousand_fuzzed_hashes(open_page, engine) -> None:
    """All are set, every fiftieth is waited for; the server reads each of them, and what it opens can be shown."""
    chance = random.Random(20261130)
    hashes = [fuzzed(chance) for _ in range(ROUNDS)]
    desk = Desk(engine)
    for hash_ in hashes:
        opened = desk.restore(hash_)
        request = {"view": opened["view"], "page": opened["page"], "tab": "fuzz", "number": 0, "known": None}
        json.dumps(opened, allow_nan=False)
        assert "error" not in desk.live(request | {"known": desk.catalogue.read(opened["view"]).family}), hash_
    visit = open_page()
    visit.page.evaluate(HASHES, [hashes, PACED])
    visit.go("#mode=edit&target=colours&alpha=0.8&beta=0.2", "target=colours", "alpha=0.8&beta=0.2&")
    assert "Colours" in visit.sentence and visit.page.is_hidden("[data-lx=problems]")
    visit.set("gamma", 0.4)
    visit.rest("target=colours", "alpha=0.4&beta=0.6&")


class Kept:
    """What a page holds after everything that can be let go was let go."""

    def __init__(self, page) -> None:
        session = page.context.new_cdp_session(page)
        for command in ("HeapProfiler.enable", "HeapProfiler.collectGarbage", "HeapProfiler.collectGarbage"):
            session.send(command)
        session.send("Performance.enable")
        told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        session.detach()
        self.nodes, self.listeners, self.heap = told["Nodes"], told["JSEventListeners"], told["JSHeapUsedSize"]


def grown(visit, updates: int, leak: bool = False) -> tuple[float, float, float]:
    """How many nodes, listeners and bytes of the heap so many updates leave behind."""
    before = Kept(visit.page)
    visit.page.evaluate(UPDATES, [[(step % 20) / 20 for step in range(updates - 1)] + [0.4], leak])
    visit.rest("alpha=0.4&")
    after = Kept(visit.page)
    return after.nodes - before.nodes, after.listeners - before.listeners, after.heap - before.heap


def flat(left: tuple[float, float, float]) -> bool:
    """Whether that is less than one node and one listener for every two updates, and 8 kB for each, of 300."""
    nodes, listeners, heap = left
    return nodes < 150 and listeners < 150 and heap < 2.4e6


def test_nodes_and_heap_stay_flat_over_300_updates(visit) -> None:
    grown(visit, 60)  # the trail, the families and the browser's own caches fill
    nodes, listeners, heap = left = grown(visit, 300)
    print(f"300 updates left {nodes:.0f} nodes, {listeners:.0f} listeners and {heap / 1e6:.2f} MB of heap")
    assert flat(left)
    assert not flat(grown(visit, 200, leak=True)), "a leak of one node and 16 kB per update is noticed"
