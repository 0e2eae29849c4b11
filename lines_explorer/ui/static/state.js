/* The view of the controls, and the preview: reading between evaluated points. Pure functions, no page. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const close = (a, b) => Math.abs(a - b) < 1e-6;

  /* The controls' values, in the order of `names`, as an object. */
  LX.named = (names, values) => Object.fromEntries(names.map((name, i) => [name, values[i]]));

  /* The view that the server understands; the active mode's own sliders count. `free`: the drawn factors;
     `parameters`: the method's, those that differ from their defaults. */
  LX.viewOf = (c, free, parameters = {}) => {
    const own = (name) => (c.mode === "many" ? c[`${name}_many`] : c[name]);
    return {
      mode: c.mode, target: c.target, tasks: c.tasks, method: c.method, schedule: c.schedule,
      alpha: own("alpha"), beta: own("beta"), scale: own("scale"), norms: c.norms, ...free, parameters,
    };
  };

  /* Controls changed so that they show `view`; the other mode's sliders stay. */
  LX.controlsFor = (view, c) => {
    const next = { ...c, ...view };
    for (const name of ["alpha", "beta", "scale"]) {
      next[name] = view.mode === "many" ? c[name] : view[name];
      if (view.mode === "many") next[`${name}_many`] = view[name];
    }
    if (view.mode === "edit" && close(view.alpha + view.beta, 1)) next.gamma = clamp(view.alpha, 0, 1);
    return next;
  };

  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const tidy = (x) => Math.round(x * 1e4) / 1e4;

  /* γ moves both: α = γ, β = 1 − γ; and follows them where they keep to that line. */
  LX.fromGamma = (gamma) => [gamma, tidy(1 - gamma)];
  LX.toGamma = (alpha, beta, gamma) => (close(alpha + beta, 1) ? clamp(alpha, 0, 1) : gamma);

  /* Whether every number the view needs is there: an emptied box sends null. */
  LX.complete = (view) =>
    [view.alpha, view.beta, view.scale, view.rest, ...view.factors].every(Number.isFinite) && view.tasks.length > 0
    && !Object.values(view.parameters ?? {}).includes(null);

  LX.familyOf = (view) => {
    if (view.mode === "edit") return `edit:${view.target}`;
    const set = Object.entries(view.parameters ?? {}).map(([name, value]) => `${name}=${value}`).join(",");
    return ["many", view.method, ...(set ? [set] : []), view.tasks.join(",")].join(":");
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
    if (view.mode === "many") return LX.fromNorms(view) || close(view.alpha, family.alpha_norms) ? view.beta : null;
    return close(view.alpha + view.beta, 1) ? view.alpha : null;
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
    if (view.mode !== "edit" || alpha < 0 || alpha >= 1 || beta < 0 || alpha + beta > 1) return null;
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

  /* The controls' values of a page opened without a link. */
  LX.initial = ({ modes: { edit, many }, controls }) => {
    const all = { ...edit, gamma: edit.alpha, tasks: many.tasks, norms: many.norms };
    for (const name of ["alpha", "beta", "scale"]) all[`${name}_many`] = many[name];
    return controls.map((name) => all[name]);
  };
  LX.clamp = clamp;
  LX.tidy = tidy;
})();
