/* The page's words and numbers: summary, notice, progress, formula, command line, table. Text only, never markup. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const find = (name) => document.querySelector(`[data-lx="${name}"]`);
  const put = (name, text) => {
    const place = find(name);
    if (place && place.textContent !== text) place.textContent = text;
  };
  const pct = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–");
  const short = (x) => String(Math.round(x * 1000) / 1000).replace("-", "−");

  LX.fill = (text, values) => text.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
  LX.say = (text, state) => {
    put("sentence", text);
    find("sentence").dataset.state = state;
  };
  LX.state = (text) => put("state", text);
  LX.notice = (text) => {
    put("notice", text ?? "");
    find("notice").hidden = !text;
  };
  LX.command = (text) => put("command", text);

  LX.progress = (done, total, text) => {
    const bar = find("progress");
    bar.hidden = done === null;
    if (done === null) return;
    bar.querySelector("progress").max = Math.max(1, total);
    bar.querySelector("progress").value = done;
    bar.querySelector("span").textContent = text;
  };

  LX.setting = (view, [alpha, beta]) =>
    view.schedule === "constant" ? `λ = ${short(alpha)}` : `α = ${short(alpha)}, β = ${short(beta)}`;

  /* λ⁽ˡ⁾ with the current numbers. */
  LX.formula = (view, [alpha, beta], blocks) => {
    const place = document.querySelector("#lx-depth-panel .lx-formula");
    if (!place) return;
    place.hidden = false;
    const sign = beta < 0 ? "−" : "+", size = short(Math.abs(beta));
    place.textContent = view.schedule === "constant"
      ? `λ = ${short(alpha)} in every block and outside them`
      : `λ⁽ˡ⁾ = α + β·(l−1)/(L−1) = ${short(alpha)} ${sign} ${size}·(l−1)/${blocks - 1}; outside the blocks α = ${short(alpha)}`;
  };

  const cell = (row, text, kind = "td") => {
    const made = document.createElement(kind);
    made.textContent = text;
    row.append(made);
    return made;
  };
  const withEnds = (stat) => (stat ? `${pct(stat.value)} [${pct(stat.low)} – ${pct(stat.high)}]` : "–");

  const rowOf = (name, role, base, expert, current, test) => {
    const row = document.createElement("tr");
    const head = cell(row, name, "th");
    head.scope = "row";
    const by = current?.reference ? ` of the ${current.reference === "expert" ? "expert’s" : "base’s"} ${pct(current.denominator)}` : "";
    const texts = [role, base ? pct(base.value) : "–", expert ? pct(expert.value) : "–", withEnds(current),
      current ? `${pct(current.normalized)}${by}` : "–", current ? String(current.n) : "–"];
    for (const text of texts) cell(row, text);
    cell(row, test ? `${withEnds(test)}, n = ${test.n}` : "–").classList.add("lx-test");
    return row;
  };

  /* The same numbers as the figures, per task and in the mean. */
  LX.table = (point, family, titles, test) => {
    const body = find("table");
    if (!body || !find("details").open) return;
    const expertOf = (task) => family.expert ? family.expert.tasks[task] : family.experts[task];
    const rows = [];
    for (const [role, tasks] of [["target", family.targets], ["control", family.controls]]) {
      for (const task of tasks)
        rows.push(rowOf(titles[task], role, family.base?.tasks[task], expertOf(task), point?.tasks[task], test?.tasks[task]));
      if (tasks.length > 1) {
        const expert = family.expert ? family.expert[role] : role === "target" ? family.ceiling : null;
        rows.push(rowOf(`Mean of ${role} tasks`, role, family.base?.[role], expert, point?.[role], test?.[role]));
      }
    }
    body.replaceChildren(...rows);
    body.closest("table").classList.toggle("lx-with-test", Boolean(test));
  };

  LX.testResult = (text) => put("test", text);
  LX.testText = (point) => {
    const control = point.control ? `, control ${withEnds(point.control)}, n = ${point.control.n}` : "";
    return `Test: target ${withEnds(point.target)}, n = ${point.target.n}${control}.`;
  };
  LX.missing = (text) => {
    find("missing").hidden = !text;
    put("missing-text", text ?? "");
  };

  LX.copy = async (button, text, done) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const box = document.createElement("textarea");
      box.value = text;
      document.body.append(box);
      box.select();
      document.execCommand("copy");
      box.remove();
    }
    const before = button.textContent;
    button.textContent = done;
    setTimeout(() => (button.textContent = before), 1200);
  };
  LX.find = find;
})();
