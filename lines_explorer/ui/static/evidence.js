/* The evidence view: which pictures two settings answer differently, and what is taken for what. Text only. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const E = { against: null, task: "", label: null, direction: "both", start: 0, number: 0, run: 0, answer: null, halted: false };
  let root, server, trigger, words, confusing, running = false;
  const find = LX.find ?? ((name) => document.querySelector(`[data-lx="${name}"]`));
  const put = (name, text) => (find(name).textContent = text);
  const pct = (share) => `${(100 * share).toFixed(0)} %`;
  const made = (tag, text, name) => {
    const node = document.createElement(tag);
    if (text) node.textContent = text;
    if (name) node.className = name;
    return node;
  };

  LX.startEvidence = (element, props, serverFunctions, send, watch) => {
    const boot = JSON.parse(props.boot);
    [server, trigger, words, confusing] = [serverFunctions, send, boot.words, boot.confusion];
    root = element.querySelector("details");
    watch("value", () => props.value && received(JSON.parse(props.value)));
    root.addEventListener("toggle", (event) => (event.target.open ? refresh() : halt()), true);
    root.addEventListener("click", (event) => press(event.target.closest("button")?.dataset ?? {}));
    root.addEventListener("change", (event) => choose(event.target));
    document.addEventListener("lx:moved", () => {
      E.number += 1;
      halt();
      E.halted = false;
      for (const name of ["ev-pictures", "ev-tasks", "ev-square"]) find(name).classList.add("lx-stale");
    });
    document.addEventListener("lx:rested", () => { E.start = 0; refresh(); });
    LX.clicked.confusion = (event) => choice({ label: classes().find((one) => one.title === event.points[0].y)?.label ?? null });
  };
  const classes = () => E.answer?.classes ?? [];
  const confused = () => find("confusion").open;

  /* What was chosen is let go once the view has no such row any more. */
  const release = () => {
    const family = LX.linked()?.family;
    if (E.task && family && ![...family.targets, ...family.controls].includes(E.task)) Object.assign(E, { task: "", label: null });
  };

  const request = () => {
    release();
    const { view, page, tab } = LX.now();
    const { against, task, label, direction, start, number, run } = E;
    const asked = { against: against === "pinned" && !page.pin ? null : against, task, label, direction, start };
    return { view, page, tab, number, run, evidence: { ...asked, confusion: confused() } };
  };

  /* The newest question's answer is drawn; the predictions of its pictures follow. */
  const refresh = async () => {
    if (!root.open || root.offsetParent === null || !LX.complete(LX.now().view)) return;
    const sent = (E.number += 1);
    try {
      const answer = await server.changes(request());
      if (sent !== E.number) return;
      notice(answer.error);
      if (answer.error) return;
      draw(answer);
      if (!answer.items.length) return;
      const more = await server.predict(request());
      if (sent === E.number && more.error) notice(more.error);
      if (sent === E.number && more.predictions) more.predictions.forEach(predicted);
    } catch {
      if (sent === E.number) notice(words.offline);
    }
  };
  const notice = (text) => {
    put("ev-notice", text ?? "");
    find("ev-notice").hidden = !text;
  };

  const draw = (answer) => {
    E.answer = answer;
    for (const name of ["ev-pictures", "ev-tasks"]) find(name).classList.remove("lx-stale");
    const pinned = root.querySelector('input[value="pinned"]');
    pinned.disabled = !LX.now().page.pin;
    root.querySelector(`input[name="lx-against"][value="${answer.against}"]`).checked = true;
    put("ev-expert", LX.now().view.mode === "many" && LX.now().view.tasks.length > 1 ? words.own : words.expert);
    put("ev-before", LX.fill(confusing.before, { side: answer.sides.before }));
    put("ev-kind", answer.kind.one);
    const again = document.activeElement?.dataset?.task;
    find("ev-tasks").replaceChildren(...answer.tasks.map(row));
    if (again !== undefined) find("ev-tasks").querySelector(`[data-task="${again}"]`)?.focus();
    const own = answer.tasks.find((one) => one.task === answer.task) ?? answer.tasks[0];
    put("ev-said", own?.known ? `${own.title}${own.note && ` (${own.note})`}. ${own.said}` : "");
    missing(answer);
    options(answer.classes);
    find("ev-pictures").replaceChildren(...answer.items.map((item) => card(item, answer.sides.short)));
    const { start, size, total } = answer, last = Math.min(total, start + size);
    put("ev-pages", total ? LX.fill(words.pictures, { first: start + 1, last, total }) : answer.unknown ? "" : words.no_pictures);
    root.querySelector('[data-do="previous"]').disabled = start === 0;
    root.querySelector('[data-do="next"]').disabled = last >= total;
    if (confused()) confusion();
  };
  const missing = ({ unknown, sides }) => {
    find("ev-missing").hidden = !unknown || running;
    if (unknown) put("ev-missing-text", LX.fill(words[`wait_${unknown}`], { side: sides.before }));
    root.querySelector('[data-do="run"]').hidden = unknown === "after";
  };

  const row = (one) => {
    const line = made("tr"), head = made("th"), button = made("button", one.title);
    Object.assign(button, { type: "button" });
    button.dataset.task = one.task;
    button.setAttribute("aria-pressed", String(one.task === E.task));
    head.scope = "row";
    head.append(button);
    if (one.note) head.append(made("span", one.note, "lx-note"));
    line.append(head);
    if (one.role === "target") line.classList.add("lx-target-row");
    const cells = one.known ? [one.lost, one.gained, one.points] : ["–", "–", words.unknown];
    for (const text of cells) line.append(made("td", String(text)));
    if (one.known) {
      const judged = one.within ? words.within : words.beyond;
      line.lastChild.append(made("span", `[${one.ends}] ${judged}`, "lx-within"));
      line.lastChild.title = one.said;
      line.classList.toggle("lx-noise", one.within);
    }
    return line;
  };

  const options = (list) => {
    const select = find("ev-class");
    const all = [made("option", words.any_class), ...list.map((one) => made("option", `${one.title} (${one.lost} → ✗, ${one.gained} → ✓)`))];
    all.forEach((option, i) => (option.value = i ? String(list[i - 1].label) : ""));
    select.replaceChildren(...all);
    select.value = E.label === null ? "" : String(E.label);
    select.disabled = !list.length;
  };

  const card = (item, short) => {
    const place = made("li", "", "lx-card"), picture = made("img"), about = made("div");
    Object.assign(picture, { src: item.source, width: 64, height: 64, alt: LX.fill(words.picture, { task: item.title, row: item.row, label: item.label }) });
    about.append(made("b", item.label));
    if (!E.task) about.append(made("span", item.title, "lx-where"));
    about.append(verdict("before", short, item.direction === "lost"), verdict("after", words.short_after, item.direction === "gained"));
    place.append(picture, about);
    return place;
  };
  const verdict = (side, short, right) => {
    const line = made("p", "", `lx-${side}`), swatch = made("i");
    swatch.dataset.role = side === "after" ? "current" : E.answer.against;
    line.append(swatch, made("span", short), made("em", right ? "✓" : "✗"), made("span", right ? words.right : words.wrong, "lx-answer"));
    return line;
  };
  const predicted = (told, index) => {
    const place = find("ev-pictures").children[index];
    for (const side of ["before", "after"]) {
      const { label, right, share, true_share } = told[side], line = place?.querySelector(`.lx-${side} .lx-answer`);
      if (!line) continue;
      line.replaceChildren(made("span", label), made("span", `· ${pct(share)}`));
      line.title = right ? `${label}: ${pct(share)}` : `${label}: ${pct(share)}; ${place.querySelector("b").textContent}: ${pct(true_share)}`;
    }
  };

  const choice = (change) => {
    Object.assign(E, { start: 0, ...change });
    refresh();
  };
  const press = (data) => {
    if (data.task !== undefined) choice({ task: data.task, label: null });
    const step = { previous: -1, next: 1 }[data.do];
    if (step) choice({ start: Math.max(0, E.start + step * E.answer.size) });
    if (data.do === "run") ask("answers");
    if (data.do === "count") { E.halted = false; confusion(); }
    if (data.do === "stop") { halt(); E.halted = true; refresh(); }
  };
  const choose = ({ name, value, dataset }) => {
    if (name === "lx-against") choice({ against: value });
    if (name === "lx-direction") choice({ direction: value });
    if (name === "lx-confusion") confusion();
    if (dataset.lx === "ev-class") choice({ label: value === "" ? null : Number(value) });
  };

  /* What the device has to do for the view; a move of the sliders, closing or Stop ends it. */
  const ask = (what) => {
    running = true;
    E.run += 1;
    progress({ done: 0, total: 1 });
    trigger("find", { ...request(), number: E.run, what });
  };
  const halt = () => {
    if (!running) return;
    E.run += 1;
    progress(null);
    server.changes(request()).catch(() => null); // tells the server that the run is over
  };
  const progress = (at) => {
    const bar = find("ev-progress");
    running = Boolean(at);
    bar.hidden = !at;
    if (!at) return;
    Object.assign(bar.querySelector("progress"), { max: Math.max(1, at.total), value: at.done });
    bar.querySelector("span").textContent = at.total > 1 ? LX.fill(words.progress, at) : "";
    find("ev-missing").hidden = true;
  };
  const received = (message) => {
    if (message.number !== E.run || !running) return;
    if (message.kind === "progress") return progress(message);
    progress(null);
    if (message.kind === "error") { E.halted = true; notice(message.error); }
    if (message.kind === "found") refresh();
  };

  /* The confusion of one task: counted when it is open and not known yet. */
  const confusion = async () => {
    const { answer } = E, square = find("ev-square"), known = answer?.confusion;
    const shown = root.querySelector('input[name="lx-confusion"]:checked').value;
    root.querySelector('[data-do="count"]').hidden = Boolean(known) || !E.halted || !E.task;
    square.hidden = find("ev-cell").hidden = !known;
    put("ev-confused", known ? known[shown].said : !E.task ? answer?.kind.choose ?? "" : E.halted ? confusing.cancelled : "");
    if (!known) {
      if (answer && E.task && !running && !E.halted && !answer.unknown) ask("confusion");
      return;
    }
    square.classList.remove("lx-stale");
    const title = answer.tasks.find((one) => one.task === E.task)?.title;
    square.setAttribute("aria-label", LX.fill(confusing.about, { task: title }));
    await LX.drawOn("confusion", square, known[shown].figure);
  };
})();
