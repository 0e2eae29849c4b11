/* The view of the controls, and the preview: reading between evaluated points. Pure functions, no page. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const close = (a, b) => Math.abs(a - b) < 1e-6;

  /* The controls' values, in the order of `names`, as an object. */
  LX.named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i]]));

  /* LX.modes: the server's table of modes; a field of the view is read from the mode's own control if it has one. */
  LX.modes = {};
  LX.controlOf = (mode, field) => LX.modes[mode].controls[field] ?? field;
  const runsOf = (task) => `runs_${task}`;

  /* The view that the server understands; the active mode's own controls count. `free`: the drawn factors;
     `parameters`: the method's, those that differ from their defaults. */
  LX.viewOf = (c, free, parameters = {}) => {
    const own = (field) => c[LX.controlOf(c.mode, field)], target = own("target");
    return {
      mode: c.mode, target, tasks: c.tasks, method: c.method, schedule: c.schedule,
      alpha: own("alpha"), beta: own("beta"), scale: own("scale"), norms: c.norms, ...free,
      runs: c.mode === "soup" ? c[runsOf(target)] : [], soup: c.soup, floor: c.floor, parameters,
    };
  };

  /* Controls changed so that they show `view`; the other modes' own stay. */
  LX.controlsFor = (view, c) => {
    const next = { ...c };
    for (const field of ["mode", "tasks", "method", "schedule", "norms", "soup", "floor"]) next[field] = view[field];
    for (const field of ["target", "alpha", "beta", "scale"]) next[LX.controlOf(view.mode, field)] = view[field];
    if (view.mode === "soup") next[runsOf(view.target)] = view.runs;
    const knob = LX.onLine(view.mode, view.alpha, view.beta);
    if (knob !== null) next[LX.controlOf(view.mode, "gamma")] = knob;
    return next;
  };

  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const tidy = (x) => Math.round(x * 1e4) / 1e4;

  /* A mode's LiNeS line goes straight from node to node, each [knob, α, β]. */
  const pieces = (mode) => LX.modes[mode].nodes.slice(1).map((end, i) => [LX.modes[mode].nodes[i], end]);
  LX.fromKnob = (mode, typed, alpha, beta) => {
    if (!Number.isFinite(typed)) return [alpha, beta]; // an emptied box
    const knob = LX.clamp(typed, pieces(mode)[0][0][0], pieces(mode).at(-1)[1][0]);
    const [[k, a, b], [k1, a1, b1]] = pieces(mode).find(([, [end]]) => knob <= end) ?? pieces(mode).at(-1);
    const t = (knob - k) / (k1 - k);
    return [tidy(a + t * (a1 - a)), tidy(b + t * (b1 - b))];
  };
  /* The knob at (α, β); null beside the line. */
  LX.onLine = (mode, alpha, beta) => {
    for (const [[k, a, b], [k1, a1, b1]] of pieces(mode)) {
      const t = Math.abs(a1 - a) >= Math.abs(b1 - b) ? (alpha - a) / (a1 - a) : (beta - b) / (b1 - b);
      const met = close(a + t * (a1 - a), alpha) && close(b + t * (b1 - b), beta);
      if (met && t > -1e-6 && t < 1 + 1e-6) return tidy(k + t * (k1 - k));
    }
    return null;
  };
  LX.toKnob = (mode, alpha, beta, knob) => LX.onLine(mode, alpha, beta) ?? knob;

  /* Whether every number the view needs is there (an emptied box sends null) and within its slider's range (a typed
     one need not be), and something is ticked. */
  LX.complete = (view) =>
    [view.alpha, view.beta, view.scale, view.rest, view.floor, ...view.factors].every(Number.isFinite) && LX.ticked(view)
    && Object.entries(LX.modes[view.mode].limits).every(([name, [low, high]]) => !(view[name] < low || view[name] > high))
    && !Object.values(view.parameters ?? {}).includes(null);
  LX.ticked = (view) => view.tasks.length > 0 && (view.mode !== "soup" || view.runs?.length > 0);

  LX.familyOf = (view) => {
    const set = view.mode === "many" ? Object.entries(view.parameters ?? {}).map(([name, value]) => `${name}:${value}`).join(",") : "";
    return [view.mode, ...LX.modes[view.mode].fields.map((field) => String(view[field])), ...(set ? [set] : [])].join(":");
  };

  LX.fromNorms = (view) => view.mode === "many" && view.schedule === "lines" && view.norms;
  LX.alphaOf = (view, family) => (LX.fromNorms(view) && family ? family.alpha_norms : view.alpha);

  /* α and β of the schedule: a constant λ has β = 0, a drawn one has neither. */
  LX.curveOf = (view, family) => {
    if (view.schedule === "free") return null;
    return view.schedule === "constant" ? [view.scale, 0] : [LX.alphaOf(view, family), view.beta];
  };

  /* λ⁽¹⁾ … λ⁽ᴸ⁾ for the formula and its figure. */
  LX.factors = (view, family, blocks) => {
    if (view.schedule === "free") return view.factors;
    const [alpha, beta] = LX.curveOf(view, family);
    return LX.shape("lines", alpha, beta, blocks);
  };

  /* Where the view stands along its own line: γ, β or λ. Null when it is off the line. */
  LX.knobOf = (view, family) => {
    if (view.schedule === "free") return null;
    if (view.schedule === "constant") return view.scale;
    if (LX.modes[view.mode].nodes.length) return LX.onLine(view.mode, view.alpha, view.beta);
    return LX.fromNorms(view) || close(view.alpha, family.alpha_norms) ? view.beta : null;
  };

  const mixStat = (a, b, t) => {
    if (!a || !b) return null;
    const mixed = { n: a.n };
    for (const key of ["value", "low", "high", "normalized", "denominator"])
      if (Number.isFinite(a[key]) && Number.isFinite(b[key])) mixed[key] = a[key] + t * (b[key] - a[key]);
    return mixed;
  };
  const weakestOf = (tasks, targets) =>
    targets.map((task) => ({ task, normalized: tasks[task].normalized }))
      .reduce((worst, next) => (next.normalized < worst.normalized ? next : worst));

  /* A point between two points, t from 0 to 1. */
  LX.mix = (a, b, t, targets) => {
    if (!a || !b) return null;
    const tasks = {};
    for (const name of Object.keys(a.tasks)) tasks[name] = mixStat(a.tasks[name], b.tasks[name], t);
    return {
      target: mixStat(a.target, b.target, t), control: mixStat(a.control, b.control, t), tasks,
      weakest: weakestOf(tasks, targets), exact: t === 0 && Boolean(a.exact ?? true),
    };
  };

  /* The point at a knob of a line, between its two evaluated neighbours; null outside them. */
  LX.along = (points, knob, targets) => {
    const sorted = [...points].sort((a, b) => a.knob - b.knob);
    const hit = sorted.find((point) => close(point.knob, knob));
    if (hit) return { ...hit, exact: true };
    const upper = sorted.findIndex((point) => point.knob > knob);
    if (upper < 1) return null;
    const [a, b] = [sorted[upper - 1], sorted[upper]];
    return { ...LX.mix(a, b, (knob - a.knob) / (b.knob - a.knob), targets), exact: false };
  };

  /* What is known of a view at once: on a line, read along it; between the LiNeS and the constant line of one
     expert, read at the same α between the two; elsewhere nothing, for there is nothing to read between. */
  LX.preview = (view, family) => {
    if (!family || view.schedule === "free") return null;
    const knob = LX.knobOf(view, family);
    if (knob !== null) return LX.along(family[view.schedule], knob, family.targets);
    const { alpha, beta } = view;
    if (!LX.modes[view.mode].between || alpha < 0 || alpha >= 1 || beta < 0 || alpha + beta > 1) return null;
    const flat = LX.along(family.constant, alpha, family.targets);
    const risen = LX.along(family.lines, alpha, family.targets);
    const point = LX.mix(flat, risen, beta / (1 - alpha), family.targets);
    return point && { ...point, exact: close(beta, 0) && flat.exact };
  };

  /* Which of `places`, each with x and y, is nearest to (x, y) when the axes span spanX and spanY; null if none. */
  LX.nearest = (places, x, y, spanX, spanY) => {
    let best = null;
    for (const place of places) {
      if (!Number.isFinite(place.x) || !Number.isFinite(place.y)) continue;
      const far = ((place.x - x) / spanX) ** 2 + ((place.y - y) / spanY) ** 2;
      if (!best || far < best.far) best = { far, place };
    }
    return best?.place ?? null;
  };

  /* What a click in the plane can lead to: the points visited, both lines and the front, each with its view. */
  LX.places = (view, family, visits, front, across) => {
    const many = view.mode === "many";
    const line = ({ alpha, beta }) => {
      const own = many && close(alpha, family.alpha_norms);
      return { ...view, schedule: "lines", alpha: own ? view.alpha : alpha, beta, norms: many ? own : view.norms };
    };
    const flat = ({ alpha }) => ({ ...view, schedule: "constant", scale: alpha });
    const place = (to) => (point) => ({ x: across(point), y: 100 * point.target.value, view: to(point) });
    return [...visits, ...family.lines.map(place(line)), ...family.constant.map(place(flat)), ...front.map(place(line))];
  };

  /* The view at a place of the α×β surface: both sliders, to hundredths, within their limits. */
  LX.onSurface = (view, x, y, limits) => {
    const hold = (value, [low, high]) => tidy(clamp(Math.round(value * 100) / 100, low, high));
    const norms = view.mode === "many" ? false : view.norms;
    return { ...view, schedule: "lines", norms, alpha: hold(x, limits.alpha), beta: hold(y, limits.beta) };
  };

  /* The controls' values of a page opened without a link: each mode's own start. */
  LX.initial = ({ modes, controls, runs }) => {
    const all = { ...modes.edit, ...Object.fromEntries(Object.entries(runs).map(([task, names]) => [runsOf(task), names])) };
    for (const view of Object.values(modes).reverse()) Object.assign(all, LX.controlsFor(view, all));
    Object.assign(all, LX.controlsFor(modes.edit, all), { tasks: modes.many.tasks, method: modes.many.method });
    return controls.map((name) => all[name]);
  };
  LX.clamp = clamp;
  LX.tidy = tidy;
})();
