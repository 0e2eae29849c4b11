/* Where a visitor has been: undo and redo over settled positions, and the trail in the plane. Pure, no page. */
(() => {
  const LX = (window.LinesExplorer ??= {});

  /* Undo and redo over plain values. A value equal to the present one is no step; a new one ends what could be redone. */
  LX.makeHistory = (most = 100) => {
    const steps = [];
    let at = -1;
    const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
    return {
      push(value) {
        if (at >= 0 && same(steps[at], value)) return;
        steps.splice(at + 1);
        steps.push(value);
        if (steps.length > most) steps.shift();
        at = steps.length - 1;
      },
      undo: () => (at > 0 ? steps[--at] : null),
      redo: () => (at < steps.length - 1 ? steps[++at] : null),
      get now() { return steps[at] ?? null; },
      get canUndo() { return at > 0; },
      get canRedo() { return at < steps.length - 1; },
    };
  };

  /* Points visited, in order, for each family; the same one twice in a row is one visit. */
  LX.makeTrail = (most = 60) => {
    const visits = new Map();
    return {
      visit(key, place) {
        const own = visits.get(key) ?? [];
        const last = own[own.length - 1];
        if (last && JSON.stringify(last.view) === JSON.stringify(place.view)) own.pop();
        own.push(place);
        if (own.length > most) own.shift();
        visits.set(key, own);
      },
      of: (key) => visits.get(key) ?? [],
    };
  };
})();
