/* Draws the figures that the server describes, and "you are here" over them, on elements that stay. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const CONFIG = { displaylogo: false, showSendToCloud: false, responsive: true, displayModeBar: false };
  const places = {}, drawn = {}, ready = {};
  let roles = {};

  /* A panel's element has appeared. */
  LX.mount = (name, element) => {
    places[name] = element.querySelector(".lx-figure");
    ready[name]?.();
  };
  const placed = (name) => places[name] ? Promise.resolve() : new Promise((done) => (ready[name] = done));

  const colours = () => {
    const css = getComputedStyle(document.querySelector("#lx-views") ?? document.body);
    const read = (name) => css.getPropertyValue(name).trim();
    const page = { ink: read("--lx-ink"), muted: read("--lx-muted"), grid: read("--lx-grid"), paper: read("--lx-paper") };
    return { ...page, ...roles, font: css.fontFamily };
  };
  let tokens = {};
  const resolve = (node) => {
    if (typeof node === "string") return node.includes("@") ? node.replace(/@(\w+)/g, (all, key) => tokens[key] ?? all) : node;
    if (Array.isArray(node)) return node.map(resolve);
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, resolve(v)]));
    return node;
  };

  /* Draws a figure; the element, its zoom and its nodes stay. */
  const draw = async (name, figure) => {
    await placed(name);
    const first = !drawn[name];
    drawn[name] = { figure, shapes: figure.layout.shapes };
    const { data, layout } = resolve(figure);
    await window.Plotly.react(places[name], data, layout, CONFIG);
    if (first && name === "plane") places[name].on("plotly_click", LX.clicked);
  };

  LX.drawFamily = async (family, schedule, colourOf) => {
    roles = colourOf;
    tokens = colours();
    const figures = { ...family.figures, curve: family.figures[`curve_${schedule}`] };
    await Promise.all(["plane", "curve", "tasks", "depth"].map((name) => draw(name, figures[name])));
  };

  /* The page's theme has changed: same figures, other colours. */
  LX.repaint = async () => {
    tokens = colours();
    for (const name of Object.keys(drawn)) await draw(name, drawn[name].figure);
    LX.redraw?.();
  };

  /* The mark of the current model: solid where evaluated, hollow where interpolated, with 95 % whiskers. */
  const mark = (x, y, solid, size) => ({
    type: "circle", xsizemode: "pixel", ysizemode: "pixel", xanchor: x, yanchor: y, x0: -size, x1: size, y0: -size, y1: size,
    line: { color: solid ? tokens.paper : tokens.ink, width: 2 }, fillcolor: solid ? tokens.ink : tokens.paper,
  });
  const bar = (x0, x1, y0, y1) => ({ type: "line", x0, x1, y0, y1, line: { color: tokens.ink, width: 1.6 } });
  const pct = (share) => 100 * share;

  const here = {
    plane(point, family) {
      const x = LX.across(point), y = pct(point.target.value);
      const shapes = [bar(x, x, pct(point.target.low), pct(point.target.high))];
      if (point.control) shapes.push(bar(pct(point.control.low), pct(point.control.high), y, y));
      return [...shapes, mark(x, y, point.exact, 8)];
    },
    curve(point, family, knob) {
      if (knob === null) return [];
      const shapes = [{ ...bar(knob, knob, 0, 1), yref: "paper", layer: "below", line: { color: tokens.muted, width: 1 } }];
      for (const stat of [point.target, point.control])
        if (stat) shapes.push(bar(knob, knob, pct(stat.low), pct(stat.high)), mark(knob, pct(stat.value), point.exact, 6));
      return shapes;
    },
    tasks(point, family) {
      return family.figures.tasks.meta.order.flatMap((task, row) => {
        const stat = point.tasks[task];
        return stat ? [bar(pct(stat.low), pct(stat.high), row, row), mark(pct(stat.value), row, point.exact, 6)] : [];
      });
    },
  };
  LX.across = (point) => pct(point.control ? point.control.value : point.weakest?.normalized);

  /* Moves "you are here"; `point` is null where nothing is known. */
  LX.drawHere = (point, family, knob) => {
    for (const name of ["plane", "curve", "tasks"]) {
      if (!drawn[name] || !places[name]._fullLayout) continue;
      const fixed = resolve(drawn[name].shapes);
      const change = { shapes: point ? [...fixed, ...here[name](point, family, knob)] : fixed };
      if (name === "plane" && point) widen(places[name], change, point);
      window.Plotly.relayout(places[name], change);
    }
  };

  /* Lets the plane show a point, with its whiskers, beyond the lines. */
  const widen = (host, change, point) => {
    const reach = (axis, ends) => {
      const [low, high] = host._fullLayout[axis].range, room = 0.03 * (high - low);
      const [first, last] = [Math.min(...ends), Math.max(...ends)];
      if (first < low || last > high)
        change[`${axis}.range`] = [first < low ? first - room : low, last > high ? last + room : high];
    };
    reach("xaxis", point.control ? [pct(point.control.low), pct(point.control.high)] : [LX.across(point)]);
    reach("yaxis", [pct(point.target.low), pct(point.target.high)]);
  };

  /* λ per block. */
  LX.drawDepth = (factors, schedule) => {
    if (!drawn.depth || !places.depth._fullLayout) return;
    const top = Math.max(1, ...factors), low = Math.min(0, ...factors);
    window.Plotly.update(places.depth, { y: [factors], "marker.color": roles[schedule] },
      { "yaxis.range": [1.15 * low, 1.15 * top] });
  };

  LX.spans = () => ["xaxis", "yaxis"].map((axis) => {
    const [low, high] = places.plane._fullLayout[axis].range;
    return high - low;
  });
})();
