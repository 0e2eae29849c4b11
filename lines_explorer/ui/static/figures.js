/* Draws the figures that the server describes, and "you are here" over them, on elements that stay. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const CONFIG = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: false };
  const places = {}, drawn = {}, ready = {}, extras = { front: null, trail: null, searched: null };
  let roles = {}, enlarged = "all", tokens = {};

  /* A panel's element has appeared. */
  LX.mount = (name, element, host = null) => {
    places[name] = host ?? element.querySelector(".lx-figure");
    new ResizeObserver(() => fit(places[name])).observe(places[name]);
    for (const done of ready[name] ?? []) done(places[name]);
  };
  /* A panel has another width, or is shown at last: so is its figure. */
  const fit = (host) => {
    if (host.offsetWidth && host._fullLayout && Math.abs(host._fullLayout.width - host.offsetWidth) > 1) window.Plotly.Plots.resize(host);
  };
  LX.placed = (name) =>
    places[name] ? Promise.resolve(places[name]) : new Promise((done) => (ready[name] ??= []).push(done));

  const colours = () => {
    const css = getComputedStyle(document.querySelector("#lx-views") ?? document.body);
    const read = (name) => css.getPropertyValue(`--lx-${name}`).trim();
    const page = Object.fromEntries(["ink", "muted", "grid", "paper", "low", "high", "front", "accent", "warn"].map((name) => [name, read(name)]));
    return { ...page, ...roles, font: css.fontFamily };
  };
  const resolve = (node) => {
    if (typeof node === "string") return node.includes("@") ? node.replace(/@(\w+)/g, (all, key) => tokens[key] ?? all) : node;
    if (Array.isArray(node)) return node.map(resolve);
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, resolve(v)]));
    return node;
  };

  /* Draws a figure; the element, its zoom and its nodes stay. */
  const draw = async (name, figure) => {
    await LX.placed(name);
    const first = !drawn[name];
    drawn[name] = { figure, shapes: figure.layout.shapes };
    const own = name === "plane" ? [extras.front, ...figure.data, extras.searched, extras.trail].filter(Boolean) : figure.data;
    const { data, layout } = resolve({ data: own, layout: figure.layout });
    if (enlarged === name) layout.height = Math.max(layout.height, window.innerHeight - 220);
    await window.Plotly.react(places[name], data, layout, CONFIG);
    if (!first) return;
    if (LX.clicked[name]) places[name].on("plotly_click", LX.clicked[name]);
    LX.link?.(name, places[name]);
  };
  LX.clicked = {};

  LX.drawFamily = async (family, schedule, colourOf) => {
    roles = colourOf;
    tokens = colours();
    const figures = { ...family.figures, curve: family.figures[`curve_${schedule === "constant" ? schedule : "lines"}`] };
    await Promise.all(["plane", "curve", "tasks", "depth"].map((name) => draw(name, figures[name])));
  };
  LX.drawOn = (name, host, figure) => {
    LX.mount(name, host.parentElement, host);
    return draw(name, figure);
  };
  LX.drawSurface = (figure) => { LX.staleSurface(false); return draw("surface", figure); };
  LX.staleSurface = (stale) => places.surface?.classList.toggle("lx-stale", stale);
  LX.drawDifference = async (figure, stale) => {
    const host = await LX.placed("difference");
    host.classList.toggle("lx-stale", stale);
    if (figure && drawn.difference?.figure !== figure) await draw("difference", figure);
  };

  /* What the plane shows besides its family: the Pareto front and the trail (traces, or null). */
  LX.drawExtras = async (more) => {
    Object.assign(extras, more);
    if (drawn.plane) await draw("plane", drawn.plane.figure);
  };

  /* The page's theme or the enlarged figure has changed: same figures, other colours and sizes. */
  LX.repaint = async () => {
    tokens = colours();
    for (const name of Object.keys(drawn)) await draw(name, drawn[name].figure);
    LX.redraw?.();
  };
  LX.enlarge = async (name, words) => {
    if (document.body.dataset.lxFigure === name) return;
    enlarged = name;
    document.body.dataset.lxFigure = name;
    for (const button of document.querySelectorAll("[data-lx-enlarge]")) {
      const large = button.dataset.lxEnlarge === name;
      button.setAttribute("aria-pressed", String(large));
      button.textContent = large ? words.shrink : words.enlarge;
    }
    if (!drawn.plane) return;
    await LX.repaint();
    for (const one of Object.keys(drawn)) if (places[one].offsetWidth) window.Plotly.Plots.resize(places[one]);
  };

  /* Plotly's own export, on the page's ground. */
  LX.saveFigure = (name, format) => {
    const host = places[name];
    const layout = { ...host.layout, paper_bgcolor: tokens.paper, plot_bgcolor: tokens.paper };
    const size = { width: host.offsetWidth, height: host._fullLayout.height, scale: format === "png" ? 2 : 1 };
    return window.Plotly.downloadImage({ data: host.data, layout }, { format, filename: `lines-explorer-${name}`, ...size });
  };

  /* The mark of the current model: solid where evaluated, hollow where interpolated or estimated, with 95 % whiskers;
     those of an estimate are broad, for they close as pictures are seen. */
  const mark = (x, y, solid, size) => ({
    type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: x, yanchor: y, x0: -size, x1: size, y0: -size, y1: size,
    line: { color: solid ? tokens.paper : tokens.ink, width: 2 }, fillcolor: solid ? tokens.ink : tokens.paper,
  });
  const pin = (x, y, size) => ({
    type: "path", xsizemode: "pixel", ysizemode: "pixel", xanchor: x, yanchor: y, name: "pinned",
    path: `M ${-size} ${-0.75 * size} L ${size} ${-0.75 * size} L 0 ${size} Z`,
    line: { color: tokens.paper, width: 1.5 }, fillcolor: roles.pinned,
  });
  const ring = (x, y, size) => ({ ...mark(x, y, false, size), fillcolor: "rgba(0,0,0,0)", name: "hovered", line: { color: tokens.accent, width: 2.5 } });
  const bar = (x0, x1, y0, y1, color = tokens.ink) => ({ type: "line", x0, x1, y0, y1, line: { color, width: 1.6 } });
  const reach = (point, x0, x1, y0, y1) => {
    if (!point.estimate) return bar(x0, x1, y0, y1);
    return { ...bar(x0, x1, y0, y1), line: { color: tokens.ink, width: 8 }, opacity: 0.3, name: "estimate" };
  };
  const pct = (share) => 100 * share;
  const upright = (x) => ({ ...bar(x, x, 0, 1), yref: "paper", layer: "below", line: { color: tokens.muted, width: 1 } });

  const here = {
    plane({ point, pinned, hovered }) {
      const shapes = hovered ? [ring(LX.across(hovered), pct(hovered.target.value), 12)] : [];
      for (const [one, color] of [[pinned?.point, roles.pinned], [point, tokens.ink]]) {
        if (!one) continue;
        const x = LX.across(one), y = pct(one.target.value), span = one === point ? reach.bind(null, one) : bar;
        shapes.push(span(x, x, pct(one.target.low), pct(one.target.high), color));
        if (one.control) shapes.push(span(pct(one.control.low), pct(one.control.high), y, y, color));
        shapes.push(one === point ? mark(x, y, point.exact, 8) : pin(x, y, 9));
      }
      return shapes;
    },
    curve({ point, knob, pinned, hovered }) {
      const shapes = [];
      if (hovered?.drawn) {
        shapes.push({ ...upright(hovered.knob), line: { color: tokens.accent, width: 1.5, dash: "dot" } });
        for (const stat of [hovered.target, hovered.control]) if (stat) shapes.push(ring(hovered.knob, pct(stat.value), 9));
      }
      if (pinned?.point && Number.isFinite(pinned.knob))
        for (const stat of [pinned.point.target, pinned.point.control]) if (stat) shapes.push(pin(pinned.knob, pct(stat.value), 7));
      if (!point || knob === null) return shapes;
      shapes.push(upright(knob));
      for (const stat of [point.target, point.control])
        if (stat) shapes.push(reach(point, knob, knob, pct(stat.low), pct(stat.high)), mark(knob, pct(stat.value), point.exact, 6));
      return shapes;
    },
    tasks({ point, pinned, hovered, family }) {
      return family.figures.tasks.meta.order.flatMap((task, row) => {
        const stat = point?.tasks[task], old = pinned?.point?.tasks[task], shapes = [];
        if (hovered?.tasks?.[task]) shapes.push(ring(pct(hovered.tasks[task].value), row, 9));
        if (old) shapes.push(pin(pct(old.value), row, 7));
        if (stat) shapes.push(reach(point, pct(stat.low), pct(stat.high), row, row), mark(pct(stat.value), row, point.exact, 6));
        return shapes;
      });
    },
    surface({ point, curve, pinned, hovered }) {
      const shapes = pinned && pinned.kind !== "free" ? [pin(pinned.alpha, pinned.beta, 9)] : [];
      if (hovered) shapes.push(ring(hovered.alpha, hovered.beta, 12));
      return curve ? [...shapes, mark(...curve, Boolean(point?.exact), 8)] : shapes;
    },
  };
  LX.across = (point) => pct(point.control ? point.control.value : point.weakest?.normalized);

  /* Moves "you are here", the pinned and the hovered point. `state`: these (or null), family, knob, curve. */
  LX.drawHere = (state) => {
    for (const name of Object.keys(here)) {
      if (!drawn[name] || !places[name]._fullLayout) continue;
      const change = { shapes: [...resolve(drawn[name].shapes), ...here[name](state)] };
      if (name === "plane") widen(places[name], change, [state.point, state.pinned?.point].filter(Boolean));
      window.Plotly.relayout(places[name], change);
    }
  };

  /* Lets the plane show points, with their whiskers, beyond the lines. */
  const widen = (host, change, points) => {
    const reach = (axis, ends) => {
      const [low, high] = host._fullLayout[axis].range, room = 0.03 * (high - low);
      const [first, last] = [Math.min(...ends), Math.max(...ends)];
      if (first < low || last > high)
        change[`${axis}.range`] = [first < low ? first - room : low, last > high ? last + room : high];
    };
    if (!points.length) return;
    reach("xaxis", points.flatMap((p) => (p.control ? [pct(p.control.low), pct(p.control.high)] : [LX.across(p)])));
    reach("yaxis", points.flatMap((p) => [pct(p.target.low), pct(p.target.high)]));
  };

  /* λ per block, of the current, the pinned and the hovered point; the scale holds still while a bar is dragged. */
  LX.drawDepth = (factors, schedule, pinned, hovered) => {
    if (!drawn.depth || !places.depth._fullLayout) return;
    const values = [...factors, ...(pinned ?? []), ...(hovered ?? [])].filter(Number.isFinite);
    const down = values.some((value) => value < 0) && values.every((value) => value <= 0);
    const top = Math.max(down ? 0.05 : 1, ...values), low = Math.min(down ? -1 : 0, ...values);
    const none = factors.map(() => null), sizes = drawn.depth.figure.data[0].y.map((size) => (down ? -size : size));
    window.Plotly.update(places.depth, { y: [sizes, factors, pinned ?? none, hovered ?? none], "marker.color": [tokens.low, roles[schedule] ?? tokens.ink, roles.pinned, tokens.accent] },
      LX.holdDepth ? {} : { "yaxis.range": [1.15 * low, 1.15 * top] }, [0, 1, 2, 3]);
  };

  LX.spans = () => ["xaxis", "yaxis"].map((axis) => {
    const [low, high] = places.plane._fullLayout[axis].range;
    return high - low;
  });
})();
