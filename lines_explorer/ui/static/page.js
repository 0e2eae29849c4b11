/* The page's one loop: controls → preview (now) → stored result (soon) → exact evaluation (when settled). */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const SETTLE_MS = 250, RETRY_MS = 2000, LATE_MS = 60;
  const tab = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;
  const S = { controls: null, view: null, family: null, families: new Map(), point: null, test: null, number: 0 };
  let server, trigger, phrases, boot, pending = null, next = null, timer = 0, frame = 0, late = 0, answered = -1;
  let busy = false, wanted = false, running = false;

  /* The hub's element is there: draw what the page came with, then the link. */
  LX.start = (element, props, serverFunctions, send, watch) => {
    server = serverFunctions;
    trigger = send;
    boot = JSON.parse(props.boot);
    phrases = boot.phrases;
    S.families.set(boot.family.key, boot.family);
    watch("value", () => props.value && received(JSON.parse(props.value)));
    wire();
    S.controls = LX.named(boot.controls, pending ?? initial());
    moved();
    if (!pending) take(boot.look, S.number);
    if (location.hash.length > 1) restore();
  };

  const initial = () => {
    const { edit, many } = boot.modes;
    const all = { ...edit, gamma: edit.alpha, tasks: many.tasks, norms: many.norms };
    for (const name of ["alpha", "beta", "scale"]) all[`${name}_many`] = many[name];
    return boot.controls.map((name) => all[name]);
  };

  const wire = () => {
    const click = (name, work) => LX.find(name)?.addEventListener("click", work);
    click("run-test", () => ask("score"));
    click("run-line", () => ask("line"));
    click("copy", (e) => LX.copy(e.target, LX.find("command").textContent, phrases.copied));
    click("link", (e) => LX.copy(e.target, location.href, phrases.copied));
    LX.find("details").addEventListener("toggle", table);
    window.addEventListener("hashchange", () => location.hash.slice(1) !== S.link && restore());
    const themed = new MutationObserver(() => LX.repaint());
    for (const node of [document.body, document.documentElement]) themed.observe(node, { attributeFilter: ["class"] });
  };

  const request = () => ({ view: S.view, tab, number: S.number, known: S.family?.key ?? null });
  const ask = (event) => trigger(event, request());

  /* Some control has a new value. Events come in bursts: only the last state of a frame is drawn (a hidden page has
     no frames, a timer serves it). */
  LX.controls = (values) => {
    if (!boot) { pending = values; return; }
    S.controls = LX.named(boot.controls, values);
    forget();
    frame = requestAnimationFrame(moved);
    late = setTimeout(moved, LATE_MS);
  };
  const forget = () => { cancelAnimationFrame(frame); clearTimeout(late); };

  const moved = () => {
    forget();
    const { mode, schedule, norms } = S.controls;
    Object.assign(document.body.dataset, { lxMode: mode, lxSchedule: schedule, lxNorms: String(Boolean(norms)) });
    const view = LX.viewOf(S.controls);
    if (S.view && JSON.stringify(view) === JSON.stringify(S.view)) return;
    const family = S.family;
    S.view = view;
    S.number += 1;
    S.test = null;
    LX.testResult("");
    if (!LX.complete(view)) return incomplete(view);
    LX.notice(null);
    S.family = S.families.get(LX.familyOf(view)) ?? null;
    const other = S.family !== family || S.schedule !== view.schedule;
    show(LX.preview(view, S.family), other);
    wanted = true;
    pump();
    clearTimeout(timer);
    timer = setTimeout(settle, SETTLE_MS);
  };

  const incomplete = (view) => {
    clearTimeout(timer);
    wanted = false;
    LX.notice(view.tasks.length ? phrases.number : phrases.tick);
  };

  /* Tier 0 and all others end here: draw a point, or that nothing is known yet. */
  const show = async (point, other) => {
    S.point = point;
    const curve = LX.curveOf(S.view, S.family);
    LX.formula(S.view, curve, boot.blocks);
    const doing = S.family && !S.family.ready ? phrases.references : phrases.evaluating;
    if (!point?.sentence) LX.say(LX.fill(doing, { setting: LX.setting(S.view, curve) }), "waiting");
    LX.state(!point ? phrases.unknown : point.partial ? phrases.partial : point.exact ? phrases.evaluated : phrases.interpolated);
    if (other && S.family) {
      S.schedule = S.view.schedule;
      LX.missing(S.family.missing ? LX.fill(phrases.missing, { missing: S.family.missing }) : null);
      await LX.drawFamily(S.family, S.view.schedule, boot.roles);
    }
    LX.redraw();
  };

  LX.redraw = () => {
    if (!S.family) return;
    LX.drawHere(S.point, S.family, LX.knobOf(S.view, S.family));
    LX.drawDepth(LX.factors(LX.curveOf(S.view, S.family), boot.blocks), S.view.schedule);
    table();
  };
  const table = () => S.family && LX.table(S.point, S.family, boot.titles, S.test);

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
        await new Promise((done) => setTimeout(done, RETRY_MS));
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
    if (answer.error) { S.exact = sent; return; }
    LX.command(answer.command);
    S.link = answer.link;
    const fresh = answer.family && LX.familyOf(S.view) === answer.family.key;
    if (fresh) S.family = answer.family;
    if (answer.point) exact(answer, fresh);
    else if (fresh) show(LX.preview(S.view, S.family), true);
  };

  const keep = (family) => {
    S.families.delete(family.key);
    S.families.set(family.key, family);
    if (S.families.size > 12) S.families.delete(S.families.keys().next().value);
  };

  const exact = (answer, other) => {
    S.exact = S.number;
    LX.say(answer.sentence, "known");
    show({ ...answer.point, exact: true, sentence: answer.sentence }, other);
    LX.progress(null);
  };

  /* Tier 3: the sliders rest. The link is written; what is not stored is evaluated, once. */
  const settle = () => {
    if (answered !== S.number) { timer = setTimeout(settle, 40); return; }
    if (S.link && location.hash.slice(1) !== S.link) history.replaceState(history.state, "", `#${S.link}`);
    if (S.exact !== S.number) ask("settle");
  };

  /* A message of a running evaluation. */
  const received = (message) => {
    if (message.kind === "family") return regrown(message.family);
    if (message.number !== S.number) return;
    if (message.kind === "error") LX.notice(message.error);
    if (message.kind === "end" || message.kind === "error") return LX.progress(null);
    const count = LX.fill(phrases.pictures, message);
    const step = message.step?.[1] > 1 ? `${message.step[0]} / ${message.step[1]} · ` : "";
    LX.progress(message.done, message.total, step + count);
    if (message.kind === "test" && message.point) tested(message.point);
    if (message.kind !== "point" || !message.point) return;
    if (message.sentence) exact(message, false);
    else show({ ...message.point, exact: true, partial: true }, false);
  };

  const regrown = (family) => {
    keep(family);
    if (LX.familyOf(S.view) !== family.key) return;
    S.family = family;
    show(S.point ?? LX.preview(S.view, family), true);
  };

  const tested = (point) => {
    S.test = point;
    LX.testResult(LX.testText(point));
    LX.progress(null);
    table();
  };

  /* Setting the controls from the page: by link, or by a click on the plane. */
  const apply = (view) => {
    const controls = LX.controlsFor(view, S.controls);
    next = boot.controls.map((name) => controls[name]);
    trigger("apply", {});
  };
  LX.taken = () => next;

  const restore = async () => {
    const answer = await server.restore(location.hash);
    if (answer.view) apply(answer.view);
  };

  LX.clicked = (event) => {
    if (!S.family) return;
    const x = event.xvals?.[0] ?? event.points[0].x, y = event.yvals?.[0] ?? event.points[0].y;
    const found = LX.nearest(S.family, x, y, ...LX.spans(), LX.across);
    if (!found) return;
    const { alpha, beta } = found.point;
    const setting = found.schedule === "constant" ? { scale: alpha } : { alpha, beta, norms: S.view.mode === "many" || S.view.norms };
    apply({ ...S.view, schedule: found.schedule, ...setting });
  };
})();
