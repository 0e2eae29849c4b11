/* The lesson: predict, move, see. Where one is, is kept in the link; what one predicted, in this page only. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const ASK = "ask", MOVE = "move", SEEN = "seen";
  let page, words, steps = [], at = -1, phase = ASK, told = null;
  const said = new Map();

  const name = () => steps[at]?.[0];
  const step = () => told?.lesson[name()] ?? null;

  /* Whether what was said is what is so: the right choice, or a number near enough. */
  LX.predicted = ({ scale, right }, value) => (scale ? Math.abs(value - right) <= scale.near + 1e-9 : value === right);

  LX.openLesson = async (own) => {
    LX.closeStory();
    at = Math.max(0, steps.findIndex(([one]) => one === own));
    await enter();
  };
  LX.closeLesson = () => {
    if (at < 0) return;
    at = -1;
    delete document.body.dataset.lxLesson;
    LX.find("lesson").hidden = true;
    const opener = document.querySelector('[data-lx-guide="lesson"]');
    opener.setAttribute("aria-expanded", "false");
    opener.focus({ preventScroll: true });
    page.note("");
  };

  const enter = async () => {
    phase = ASK;
    document.querySelector('[data-lx-guide="lesson"]').setAttribute("aria-expanded", "true");
    draw();
    told = await LX.tellings();
    if (at < 0 || !step()) return;
    begin();
  };
  const begin = () => {
    const { start } = step();
    if (start) page.open(start, { pin: null, guide: `lesson-${name()}` });
    draw(true);
  };
  const go = (by) => {
    if (at + by >= steps.length) return LX.closeLesson();
    at = Math.max(0, at + by);
    enter();
  };

  const predict = (value) => {
    said.set(name(), value);
    phase = MOVE;
    draw(true);
  };
  const carry = () => page.open(step().end, { pin: step().start });
  const seen = () => {
    phase = SEEN;
    draw(true);
  };

  /* The sliders rest: are they where the answer is? */
  LX.lessonRests = () => {
    const { S, boot } = page;
    if (phase === MOVE && step() && LX.sameSetting(S.view, step().end, S.family, boot.blocks)) seen();
  };
  LX.lessonTold = async () => {
    told = await LX.tellings();
    if (at >= 0 && phase === ASK) begin();
  };

  /* One drawing for each phase. */
  const draw = (focus) => {
    const host = LX.find("lesson"), own = step();
    host.hidden = false;
    const asking = phase === ASK && own?.start;
    document.body.dataset.lxLesson = asking ? ASK : phase === ASK ? "wait" : phase;
    const place = LX.make("p", LX.fill(words.step, { step: at + 1, steps: steps.length }), { class: "lx-place" });
    const title = LX.make("h3", steps[at][1], { tabindex: "-1" });
    const bar = LX.make("progress", null, { max: steps.length, value: at + 1, "aria-hidden": "true" });
    const body = !own ? [LX.make("p", page.boot.guide_texts.telling)] : own.needs ? untold(own) : known(own);
    host.replaceChildren(place, bar, title, ...body, ends());
    if (focus) title.focus({ preventScroll: true });
  };
  const ends = () => {
    const row = LX.make("p", null, { class: "lx-row" });
    const last = at === steps.length - 1;
    if (at > 0) row.append(LX.pressable(words.back, () => go(-1), { "data-lx-lesson-go": "back" }));
    row.append(LX.pressable(last ? words.finish : words.next, () => go(1), { "data-lx-lesson-go": "next" }));
    row.append(LX.pressable(words.leave, LX.closeLesson, { "data-lx-lesson-go": "close" }));
    return row;
  };
  const untold = (own) => {
    const label = LX.fill(page.boot.guide_texts.evaluate, { number: own.needs });
    const ask = LX.pressable(label, () => page.ask("tell", { name: `lesson-${name()}` }), { "data-lx-lesson-go": "evaluate" });
    return [LX.make("p", LX.fill(words.untold, { number: own.needs })), ask];
  };
  const known = (own) => {
    const question = LX.make("p", null, { class: "lx-question" });
    LX.putWords(question, own.question);
    if (!own.start) return [question];
    if (phase === ASK) return [question, form(own), LX.make("p", words.intro, { class: "lx-hint" })];
    const verdict = LX.fill(words.wrong, { said: spoken(own) });
    if (phase === MOVE) {
      const move = LX.make("p", `${verdict} ${LX.fill(words.move, { move: own.move })}`);
      return [question, move, LX.pressable(words.do, carry, { "data-lx-lesson-go": "do" })];
    }
    const fits = LX.predicted(own, said.get(name()));
    const answer = LX.make("p", null, { class: "lx-answer", role: "status", "data-right": String(fits) });
    LX.putWords(answer, `${LX.fill(fits ? words.right : words.wrong, { said: spoken(own) })} ${own.answer}`);
    const over = at === steps.length - 1 ? [LX.make("p", words.over)] : [];
    return [question, answer, ...over];
  };
  const spoken = (own) => {
    const value = said.get(name());
    return own.scale ? `${value}${own.scale.unit ? ` ${own.scale.unit}` : ""}` : own.choices[value].toLowerCase();
  };

  const form = (own) => {
    const made = LX.make("form", null, { class: "lx-predict" });
    const send = LX.make("button", words.predict, { type: "submit", "data-lx-lesson-go": "predict" });
    const read = own.scale ? slider(own, made) : choices(own, made, send);
    made.append(send);
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = read();
      if (value !== null) predict(value);
    });
    return made;
  };
  const slider = ({ scale }, made) => {
    const label = LX.make("label", words.answer), input = LX.make("input", null, { type: "range", min: scale.low, max: scale.high, step: scale.step });
    const output = LX.make("output");
    input.value = said.get(name()) ?? (scale.low + scale.high) / 2;
    const tell = () => (output.textContent = `${Number(input.value)}${scale.unit ? ` ${scale.unit}` : ""}`);
    input.addEventListener("input", tell);
    tell();
    label.append(input, output);
    made.append(label);
    return () => Number(input.value);
  };
  const choices = (own, made, send) => {
    const group = LX.make("fieldset"), before = said.get(name());
    group.append(LX.make("legend", words.answer, { class: "lx-unseen" }));
    own.choices.forEach((text, i) => {
      const label = LX.make("label"), input = LX.make("input", null, { type: "radio", name: "lx-predict", value: i });
      input.checked = i === before;
      input.addEventListener("change", () => (send.disabled = false));
      label.append(input, LX.make("span", text));
      group.append(label);
    });
    send.disabled = before === undefined;
    made.append(group);
    return () => {
      const chosen = made.querySelector("input:checked");
      return chosen ? Number(chosen.value) : null;
    };
  };

  LX.startLesson = (api) => {
    page = api;
    words = api.boot.lesson_texts;
    steps = api.boot.guide.lesson;
    document.addEventListener("click", (event) => {
      if (!event.target.closest?.('[data-lx-guide="lesson"]')) return;
      if (at < 0) LX.openLesson(steps[0]?.[0]);
      else LX.closeLesson();
    });
  };
})();
