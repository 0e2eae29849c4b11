/* Linked views: the evaluated point that one points at in a figure is ringed in all of them. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  let pointed = null; // { key: of the family, kind, point }

  const nearest = (points, distance) => {
    const best = points.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
    return best && distance(best) < 1e-6 ? best : null;
  };

  /* How far a point of the family is from a mark at x, y of a figure. */
  const far = {
    plane: (x, y) => (point) => Math.abs(LX.across(point) - x) + Math.abs(100 * point.target.value - y),
    curve: (x) => (point) => Math.abs(point.knob - x),
    surface: (x, y) => (point) => Math.abs(point.alpha - x) + Math.abs(point.beta - y),
  };

  /* The family's point under a mark of a figure: {kind, point}, or null for what is no point of its lines. */
  LX.pointUnder = (name, { x, y }, family, schedule) => {
    const shown = schedule === "constant" ? "constant" : "lines";
    for (const kind of name === "curve" ? [shown] : ["lines", "constant"]) {
      const point = nearest(family[kind], far[name](x, y));
      if (point) return { kind, point };
    }
    return null;
  };

  /* A figure was drawn for the first time: listen to it. */
  LX.link = (name, host) => {
    if (!far[name]) return;
    host.on("plotly_hover", (event) => {
      const { family, schedule } = LX.linked() ?? {}, mark = event.points?.[0]; // none between the marks
      if (family && mark) point(family.key, LX.pointUnder(name, mark, family, schedule));
    });
    host.on("plotly_unhover", () => point(null, null));
  };
  const point = (key, found) => {
    if (found?.point === pointed?.point) return;
    pointed = found && { key, ...found };
    LX.redraw();
  };

  /* What is pointed at, if it belongs to the family that is drawn; `drawn`: the slider's figure shows its line. */
  LX.hoveredIn = (family, view) => {
    if (!pointed || pointed.key !== family.key) return null;
    return { ...pointed.point, drawn: (pointed.kind === "constant") === (view.schedule === "constant") };
  };
  LX.hoveredFactors = (hovered, blocks) => (hovered ? LX.shape("lines", hovered.alpha, hovered.beta, blocks) : null);
})();
