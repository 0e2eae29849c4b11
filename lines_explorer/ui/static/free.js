/* The drawn λ: shapes to start from, and the editor below the figure (drag, type). */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const curves = {
    lines: (x) => x,
    step: (x) => (x < 0.5 ? 0 : 1),
    smooth: (x) => x * x * (3 - 2 * x),
    triangle: (x) => 1 - Math.abs(2 * x - 1),
    reversed: (x) => 1 - x,
  };

  /* λ⁽ˡ⁾ = α + β·g(x) for x = (l − 1)/(L − 1); one block alone has α. */
  LX.shape = (name, alpha, beta, blocks) =>
    Array.from({ length: blocks }, (_, i) => alpha + (blocks > 1 ? beta * curves[name](i / (blocks - 1)) : 0));

  /* Factors as the server takes them: within the limits, to four decimals. */
  LX.drawn = (factors, [low, high]) => factors.map((factor) => LX.tidy(LX.clamp(factor, low, high)));

  /* The editor. `get` gives {factors, rest}; `set` takes them changed; `active` says whether λ is drawn now. */
  LX.editFree = async (boot, { get, set, active }) => {
    await LX.placed("depth");
    const limits = boot.limits.factor, words = boot.free_texts;
    const change = (index, value) => {
      const { factors, rest } = get();
      if (index === factors.length) set(factors, value);
      else set(factors.map((factor, i) => (i === index ? value : factor)), rest);
    };
    const boxes = Array.from({ length: boot.blocks + 1 }, (_, i) => box(i, boot, words, limits, change));
    LX.find("factors").replaceChildren(...boxes.map((one) => one.parentElement));
    LX.syncFree = () => {
      const { factors, rest } = get();
      LX.find("free").hidden = !active();
      [...factors, rest].forEach((value, i) => {
        if (boxes[i] !== document.activeElement && Number.isFinite(value)) boxes[i].value = value;
      });
    };
    LX.syncFree();
    drag(boot, limits, active, change);
  };

  const box = (index, boot, words, [low, high], change) => {
    const label = document.createElement("label"), name = document.createElement("span"), input = document.createElement("input");
    const last = index === boot.blocks;
    name.textContent = last ? words.rest_short : index + 1;
    Object.assign(input, { type: "number", min: low, max: high, step: 0.05 });
    input.setAttribute("aria-label", last ? words.rest : LX.fill(words.block, { block: index + 1 }));
    input.addEventListener("input", () => {
      const value = input.value === "" ? NaN : Number(input.value);
      change(index, value >= low && value <= high ? LX.tidy(value) : null);
    });
    label.append(name, input);
    return input;
  };

  /* Dragging in the figure: the block under the pointer takes the height of the pointer. */
  const drag = async (boot, [low, high], active, change) => {
    const host = await LX.placed("depth");
    let held = null;
    const follow = (event) => {
      const { xaxis, yaxis } = host._fullLayout, frame = host.getBoundingClientRect();
      const x = xaxis.p2d(event.clientX - frame.left - xaxis._offset), y = yaxis.p2d(event.clientY - frame.top - yaxis._offset);
      held ??= LX.clamp(Math.round(x), 1, boot.blocks) - 1;
      change(held, LX.tidy(LX.clamp(Math.round(y * 100) / 100, low, high)));
    };
    const end = () => {
      if (held === null) return;
      held = null;
      LX.holdDepth = false;
      LX.redraw();
    };
    host.addEventListener("pointerdown", (event) => {
      if (!active() || !host._fullLayout || event.button !== 0 || !event.target.closest?.(".nsewdrag")) return;
      host.setPointerCapture(event.pointerId);
      LX.holdDepth = true;
      follow(event);
    });
    host.addEventListener("pointermove", (event) => held !== null && follow(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) host.addEventListener(name, end);
  };
})();
