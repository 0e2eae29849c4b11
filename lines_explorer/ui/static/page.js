/* The page's one loop: controls → preview (now) → stored result (soon) → exact evaluation (when settled). */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const SETTLE_MS = 250, LATE_MS = 60;
  const tab = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;
  const S = {
    controls: null, view: null, page: null, free: null, parameters: {}, family: null, families: new Map(), surfaces: new Map(),
    point: null, hover: null, pinned: null, test: null, number: 0, rested: -1, exact: -1, history: LX.makeHistory(), trail: LX.makeTrail(),
  };
  let server, trigger, phrases, boot, grid, pending = null, next = null, timer = 0, frame = 0, late = 0, answered = -1;
  let busy = false, wanted = false, link = null, given = null, testWanted = false;

  /* The hub's element is there: draw what the page came with, then the link. */
  LX.start = (element, props, serverFunctions, send, watch) => {
    server = serverFunctions;
    trigger = send;
    boot = JSON.parse(props.boot);
    phrases = boot.phrases;
    grid = LX.surfaceOf({ S, words: boot.surface_texts, look: () => server.surface(request()) });
    LX.modes = boot.table;
    S.page = boot.page;
    S.free = { factors: boot.view.factors, rest: boot.view.rest };
    S.families.set(boot.family.key, boot.family);
    watch("value", () => props.value && received(JSON.parse(props.value)));
    wire();
    dress();
    LX.greyModes(boot.lacking);
    LX.find("model").hidden = !boot.downloads;
    S.controls = LX.named(boot.controls, pending ?? LX.initial(boot));
    link = LX.makeLink({
      read: (hash) => server.restore(hash), open: opened, offline: () => LX.notice(phrases.offline),
      moved: () => (S.view !== null && answered !== S.number && LX.complete(S.view) ? S.view : null),
    });
    moved();
    if (!pending) take(boot.look, S.number);
    LX.begin({ S, boot, server, ask, open, renew: () => { S.number += 1; refresh(); }, note: (guide) => changed({ guide }) });
    link.begin();
  };

  const wire = () => {
    const step = (value) => value && apply(value);
    const back = () => {
      if (!LX.complete(S.view)) return step(S.history.now);
      S.history.push(S.view);
      step(S.history.undo());
    };
    LX.wireTools({
      clicks: {
        "run-test": () => { S.page.split = "test"; ask("score"); refresh(); },
        "run-line": () => ask("line"),
        "run-fill": () => ask("fill"),
        model: (button) => LX.saveModel(button, () => server.model(request()), phrases, LX.notice),
        copy: (button) => LX.copy(button, LX.find("command").textContent, phrases.copied),
        link: (button) => { link.write(); LX.copy(button, location.href, phrases.copied); },
        defaults: () => set(S.controls.method, {}),
        undo: back,
        redo: () => step(S.history.redo()),
        pin: () => pinned(S.view),
        unpin: () => pinned(null),
        swap: () => step(S.page.pin),
        csv: () => LX.saveText("lines-explorer.csv", LX.csv(LX.rows(tableState())), "text/csv"),
        json: () => LX.saveText("lines-explorer.json", JSON.stringify(report(), null, 1), "application/json"),
      },
      enlarge: (name) => changed({ figure: S.page.figure === name ? "all" : name }),
      quantity: (quantity) => changed({ quantity }),
      preset: (name) => {
        const alpha = LX.alphaOf({ ...S.view, schedule: "lines" }, S.family);
        drawn(LX.drawn(LX.shape(name, alpha, S.view.beta, boot.blocks), boot.limits.factor), LX.drawn([alpha], boot.limits.factor)[0]);
      },
    });
    LX.editParameters(boot, { get: () => [S.controls?.method, S.controls && own()], set });
    LX.tellSliders((name) => S.controls?.[name], slid);
    LX.editFree(boot, { get: () => S.free, set: drawn, active: () => S.view?.schedule === "free" });
    Object.assign(LX.clicked, { plane: onPlane, surface: onSurface });
    LX.find("details").addEventListener("toggle", table);
    const themed = new MutationObserver(() => LX.repaint());
    for (const node of [document.body, document.documentElement]) themed.observe(node, { attributeFilter: ["class"] });
  };

  const request = () => ({ view: S.view, page: S.page, tab, number: S.number, known: S.family?.key ?? null });
  const ask = (event, more) => trigger(event, { ...request(), ...more });

  /* Some control has a new value. Events come in bursts: only the last state of a frame is drawn (a hidden page has
     no frames, a timer serves it). */
  LX.controls = (values) => {
    if (!boot) { pending = values; return; }
    S.controls = LX.named(boot.controls, values);
    soon();
  };
  const slid = (name, value) => {
    S.controls = { ...S.controls, [name]: value };
    const [gamma, alpha, beta] = ["gamma", "alpha", "beta"].map((field) => LX.controlOf(S.controls.mode, field));
    if (name === gamma) [S.controls[alpha], S.controls[beta]] = LX.fromKnob(S.controls.mode, value, S.controls[alpha], S.controls[beta]);
    soon();
  };
  const soon = () => {
    forget();
    frame = requestAnimationFrame(moved);
    late = setTimeout(moved, LATE_MS);
  };
  const forget = () => { cancelAnimationFrame(frame); clearTimeout(late); };
  const drawn = (factors, rest) => { S.free = { factors, rest }; soon(); };

  const own = () => S.parameters[S.controls.method] ?? {}; // each method keeps its own while another is chosen
  const set = (method, values) => { S.parameters[method] = values; soon(); };

  const moved = () => {
    forget();
    const { mode, schedule, norms } = S.controls, old = S.view;
    LX.offerMethods(boot.experts, S.controls.tasks), LX.syncParameters();
    Object.assign(document.body.dataset, { lxMode: mode, lxSchedule: schedule, lxNorms: String(Boolean(norms)) });
    LX.showRuns(Object.keys(boot.runs).indexOf(S.controls.target_soup));
    if (schedule === "free" && old && old.schedule !== "free" && !given && LX.complete(old)) takeOver(old);
    const view = LX.viewOf(S.controls, S.free, own());
    if (old && JSON.stringify(view) === JSON.stringify(old)) return;
    if (JSON.stringify(view) === given) given = null;
    else if (!given && old) LX.problems([]);
    const family = S.family;
    S.view = view;
    S.number += 1;
    document.body.dataset.lxState = "moving";
    forgetResults();
    LX.syncFree?.();
    if (!LX.complete(view)) return incomplete(view);
    LX.notice(null);
    S.family = S.families.get(LX.familyOf(view)) ?? null;
    const other = S.family !== family || S.schedule !== view.schedule;
    if (other && S.pinned) S.pinned.point = null;
    show(LX.preview(view, S.family), other);
    askLive();
  };

  /* A drawn λ begins with the factors that were there. */
  const takeOver = (old) => {
    const outside = old.schedule === "constant" ? old.scale : LX.alphaOf(old, S.family);
    const factors = LX.drawn(LX.factors(old, S.family, boot.blocks), boot.limits.factor);
    S.free = { factors, rest: LX.drawn([outside], boot.limits.factor)[0] };
  };

  const forgetResults = () => {
    S.test = null;
    if (!testWanted) S.page.split = "validation";
    LX.testResult("");
    if (S.pinned) S.pinned.differences = null;
  };

  LX.linked = () => S.family && { family: S.family, schedule: S.view.schedule };
  LX.now = () => ({ view: S.view, page: S.page, tab });
  const tell = (what) => document.dispatchEvent(new CustomEvent(`lx:${what}`)); // moved, rested: for other panels
  const askLive = () => {
    tell("moved");
    wanted = true;
    pump();
    clearTimeout(timer);
    timer = setTimeout(settle, SETTLE_MS);
  };

  const incomplete = (view) => {
    clearTimeout(timer);
    wanted = false;
    S.point = null;
    LX.find("sentence").dataset.state = "waiting";
    LX.state(phrases.unknown);
    LX.progress(null);
    tools();
    table();
    LX.notice(LX.ticked(view) ? phrases.number : view.tasks.length ? phrases.run : phrases.tick);
  };

  /* Tier 0 and all others end here: draw a point, or that nothing is known yet. */
  const show = async (point, other) => {
    S.point = point;
    const curve = LX.curveOf(S.view, S.family);
    LX.formula(S.view, curve, boot.blocks);
    const doing = S.family && !S.family.ready ? phrases.references : phrases.evaluating;
    if (!point?.sentence) LX.say(LX.fill(doing, { setting: LX.setting(S.view, curve) }), "waiting");
    LX.state(!point ? phrases.unknown : point.estimate?.said ?? (point.exact ? LX.modes[S.view.mode].evaluated : phrases.interpolated));
    tools();
    if (other && S.family) {
      S.schedule = S.view.schedule;
      LX.offerSearch(S.family);
      LX.missing(S.family.missing ? LX.fill(phrases.missing, { missing: S.family.missing }) : null);
      await LX.drawFamily(S.family, S.view.schedule, boot.roles);
      await around(S.family);
    }
    LX.redraw();
  };

  /* What surrounds a family: trail and front in the plane, the surface, the difference from what is pinned. */
  const around = async (family) => {
    if (family !== S.family) return;
    const surface = S.surfaces.get(family.key);
    await LX.drawExtras({ front: surface?.front ?? null, trail: trailOf(family), searched: LX.searchedOf(family.key) });
    if (family !== S.family) return;
    if (!S.pinned) await LX.drawDifference(family.figures.difference, false);
    LX.staleSurface(!surface);
    if (surface) await grid.draw(surface);
    grid.want();
  };
  const trailOf = (family) => {
    const visits = S.trail.of(family.key), column = (name) => visits.map((visit) => visit[name]);
    return visits.length ? { ...family.figures.trail, x: column("x"), y: column("y"), customdata: column("hover") } : null;
  };

  LX.redraw = () => {
    if (!S.family || !S.view || !LX.complete(S.view)) return;
    const at = { point: S.point, pinned: pinnedHere(), hovered: LX.hoveredIn(S.family, S.view), family: S.family, knob: LX.knobOf(S.view, S.family), curve: LX.curveOf(S.view, S.family) };
    LX.drawHere(at);
    LX.drawDepth(LX.factors(S.view, S.family, boot.blocks), S.view.schedule, S.pinned?.factors, LX.hoveredFactors(at.hovered, boot.blocks));
    LX.drawDifference(S.pinned?.differences ? S.pinned.figure : null, Boolean(S.pinned && !S.pinned.differences));
    table();
  };
  const pinnedHere = () => {
    if (!S.pinned) return null;
    const { view } = S.pinned, own = LX.familyOf(view) === S.family.key && (view.schedule === "constant") === (S.view.schedule === "constant");
    return { ...S.pinned, knob: own ? LX.knobOf(view, S.family) : null };
  };
  const tableState = () => ({ point: S.point, test: S.test, pinned: S.pinned, family: S.family, titles: boot.titles });
  const table = () => S.family && LX.table(tableState());
  const report = () => ({
    suite: boot.suite, link: location.href, command: LX.find("command").textContent, sentence: LX.find("sentence").textContent,
    evaluated: Boolean(S.point?.exact), estimate: S.point?.estimate ?? null, split: "validation", view: S.view, pinned: S.page.pin, rows: LX.rows(tableState()),
  });
  const tools = () => {
    const { canUndo, canRedo, now } = S.history, whole = LX.complete(S.view);
    LX.showTools({ canUndo: whole ? canUndo : Boolean(now), canRedo, canPin: whole && Boolean(S.point?.exact) });
  };

  /* Tier 1: one question on its way, the newest state wins. */
  const pump = async () => {
    if (busy) return;
    busy = true;
    while (wanted) {
      wanted = false;
      const sent = S.number;
      try {
        take(await server.live(request()), sent);
      } catch {
        LX.notice(phrases.offline);
        await LX.unanswered();
        wanted = true;
      }
    }
    busy = false;
  };

  const take = (answer, sent) => {
    if (answer.family) keep(answer.family);
    if (sent !== S.number) return;
    answered = sent;
    LX.notice(answer.error ?? null);
    if (answer.error) { S.exact = sent; return LX.say(phrases.unknown, "waiting"); }
    LX.command(answer.command);
    LX.trouble(answer.trouble ? phrases.trouble : null);
    link.soon(answer.link);
    comparing(answer.pinned);
    const fresh = answer.family && LX.familyOf(S.view) === answer.family.key;
    if (fresh) S.family = answer.family;
    if (answer.point) exact(answer, fresh);
    else if (fresh) show(LX.preview(S.view, S.family), true);
    else LX.redraw();
  };

  const keep = (family) => {
    S.families.delete(family.key);
    S.families.set(family.key, family);
    if (S.families.size > 12) S.families.delete(S.families.keys().next().value);
  };

  const exact = (answer, other) => {
    S.exact = S.number;
    S.hover = answer.hover;
    LX.say(answer.sentence, "known");
    show({ ...answer.point, exact: true, sentence: answer.sentence }, other);
    LX.progress(null);
    visit();
  };

  /* Tier 3: the sliders rest. The link is written; what is not stored is evaluated, once. */
  const settle = () => {
    if (link.reading || LX.holdDepth || answered !== S.number) { timer = setTimeout(settle, 40); return; }
    link.write();
    if (S.rested !== S.number) S.history.push(S.view);
    S.rested = S.number;
    tools();
    visit();
    if (S.exact !== S.number || (S.pinned && !S.pinned.point)) ask("settle");
    if (testWanted && S.exact === S.number) { testWanted = false; ask("score"); }
  };

  /* A settled, evaluated point joins the trail. */
  const visit = () => {
    if (S.rested !== S.number || S.exact !== S.number || !S.point?.exact || !S.family) return;
    document.body.dataset.lxState = "rested";
    tell("rested");
    S.trail.visit(S.family.key, { x: LX.across(S.point), y: 100 * S.point.target.value, hover: S.hover, view: S.view });
    LX.drawExtras({ trail: trailOf(S.family) }).then(LX.redraw);
    if (testWanted) { testWanted = false; ask("score"); }
    LX.rested();
  };

  /* A message of a running evaluation. */
  const received = (message) => {
    if (message.kind === "family") return regrown(message.family);
    if (message.kind === "surface") return grid.take(message.surface);
    if (LX.heard(message)) return;
    if (message.number !== S.number) return;
    if (message.kind === "error") LX.notice(message.error);
    if (message.kind === "end" || message.kind === "error") return LX.progress(null);
    if (message.kind === "pinned") { comparing(message.pinned); tell("rested"); return LX.redraw(); }
    const count = LX.fill(phrases.pictures, message);
    const step = message.step?.[1] > 1 ? `${message.step[0]} / ${message.step[1]} · ` : "";
    LX.progress(message.done, message.total, step + count);
    if (message.kind === "test" && message.point) tested(message.point);
    if (message.kind !== "point" || !message.point) return;
    if (!message.sentence) return show({ ...message.point, exact: false }, false);
    comparing(message.pinned);
    exact(message, false);
    grid.want();
  };

  const regrown = (family) => {
    keep(family);
    if (LX.familyOf(S.view) !== family.key) return;
    S.family = family;
    show(S.point ?? LX.preview(S.view, family), true);
  };

  const tested = (point) => { S.test = point; LX.testResult(LX.testText(point, S.view.mode)); LX.progress(null); table(); };

  /* Pinning, and what else the page shows besides its view. */
  const unpinned = () => {
    S.pinned = null;
    if (S.family) LX.drawDifference(S.family.figures.difference, false);
  };
  const pinned = (view) => { unpinned(); changed({ pin: view }); };
  const comparing = (found) => {
    S.pinned = found ?? null;
    const phrase = found?.point ? phrases.pinned : phrases.pinning;
    LX.pinnedAs(found ? LX.fill(phrase, { setting: found.setting }) : null);
  };
  const changed = (what) => {
    Object.assign(S.page, what);
    dress();
    refresh();
  };
  const refresh = () => LX.complete(S.view) && askLive();
  const dress = () => {
    const { hide, figure } = S.page;
    document.body.dataset.lxPinned = S.page.pin ? "yes" : "no";
    LX.hide(hide, boot.hideable);
    LX.enlarge(figure, boot.buttons);
    const surface = S.surfaces.get(S.family?.key);
    if (surface) grid.draw(surface).then(LX.redraw);
  };

  /* Setting the controls from the page: by story, link, undo, or a click in a figure; `page`: what else changes. */
  const open = (view, page) => {
    if ("pin" in page) unpinned();
    Object.assign(S.page, page);
    dress();
    apply(view);
  };
  const apply = (view) => {
    const controls = LX.controlsFor(view, S.controls);
    next = boot.controls.map((name) => controls[name]);
    const free = { factors: view.factors, rest: view.rest };
    Object.assign(S, { controls, free, parameters: { ...S.parameters, [view.method]: view.parameters } });
    given = JSON.stringify(LX.viewOf(controls, S.free, view.parameters));
    if (given === JSON.stringify(S.view)) { given = null; return refresh(); }
    trigger("apply", {});
    moved();
  };
  LX.taken = () => next;

  /* What a link opens. */
  const opened = ({ view, page, problems }) => {
    S.page = page;
    testWanted = page.split === "test";
    LX.problems(problems);
    dress();
    apply(view);
    LX.guided(page.guide);
  };

  const at = (event, axis) => event[`${axis}vals`]?.[0] ?? event.points[0][axis];
  const onPlane = (event) => {
    if (!S.family) return;
    const places = LX.places(S.view, S.family, S.trail.of(S.family.key), S.surfaces.get(S.family.key)?.points ?? [], LX.across);
    const found = LX.nearest(places, at(event, "x"), at(event, "y"), ...LX.spans());
    if (found) apply(found.view);
  };
  const onSurface = (event) => apply(LX.onSurface(S.view, at(event, "x"), at(event, "y"), LX.modes[S.view.mode].limits));
})();
