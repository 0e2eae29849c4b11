/* Stories: one click sets the whole view; the caption comes from the server, written from the stored results. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  let page, words, told = null, asking = null, open = null, shown = null;

  /* The numbers of all stories and steps, asked for once; again when more is stored. */
  LX.tellings = (anew) => {
    if (told && !anew) return Promise.resolve(told);
    asking ??= page.server.told({}).then((answer) => {
      asking = null;
      if (answer.error) { LX.notice(answer.error); return null; }
      return (told = answer);
    }).catch(() => { asking = null; return null; });
    return asking;
  };

  LX.make = (kind, text, more = {}) => {
    const made = document.createElement(kind);
    if (text) made.textContent = text;
    for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
    return made;
  };
  LX.pressable = (text, work, more = {}) => {
    const made = LX.make("button", text, { type: "button", ...more });
    made.addEventListener("click", work);
    return made;
  };

  /* Whether two views give the same model: the same experts under the same factors. */
  LX.sameSetting = (a, b, family, blocks) => {
    if (LX.familyOf(a) !== LX.familyOf(b) || family?.key !== LX.familyOf(a)) return false;
    const [one, other] = [a, b].map((view) => LX.factors(view, family, blocks));
    return one.every((factor, i) => Math.abs(factor - other[i]) < 2e-4);
  };

  /* Opens a story; `set` says whether its view is set as well (a link has brought it already). */
  LX.openStory = async (name, set) => {
    LX.closeLesson();
    open = name;
    mark();
    draw(null);
    const all = await LX.tellings();
    if (open !== name || !all) return;
    const story = all.stories[name];
    if (!story) return LX.closeStory();
    draw(story);
    if (set) page.open(story.view, { pin: story.pin, guide: `story-${name}` });
  };
  LX.closeStory = () => {
    if (open === null) return;
    const chip = document.querySelector(`[data-lx-story="${open}"]`);
    open = null;
    mark();
    LX.find("story").hidden = true;
    page.note("");
    chip?.focus({ preventScroll: true });
  };

  const mark = () => {
    for (const chip of document.querySelectorAll("[data-lx-story]"))
      chip.setAttribute("aria-pressed", String(chip.dataset.lxStory === open));
  };
  const draw = (story) => {
    const host = LX.find("story");
    host.hidden = false;
    shown = story && story.title + story.caption;
    if (!story) return host.replaceChildren(LX.make("p", words.telling));
    const text = LX.make("p"), row = LX.make("p", null, { class: "lx-row" });
    LX.putWords(text, story.caption);
    row.append(LX.pressable(words.again, () => LX.openStory(open, true), { "data-lx-guide": "again", hidden: "" }));
    if (story.needs) {
      const label = LX.fill(words.evaluate, { number: story.needs });
      row.append(LX.pressable(label, () => page.ask("tell", { name: `story-${open}` }), { "data-lx-guide": "evaluate" }));
    }
    row.append(LX.pressable(words.close, LX.closeStory, { "data-lx-guide": "close" }));
    host.replaceChildren(LX.make("h3", story.title), text, row);
  };

  /* The sliders rest: is this still the story's view, and can an untold story be told now? */
  LX.storyRests = async () => {
    const story = told?.stories[open];
    if (!story) return;
    if (story.needs) await LX.tellings(true);
    refreshStory();
  };
  const refreshStory = () => {
    const story = told?.stories[open], { S, boot } = page;
    if (!story) return;
    if (shown !== story.title + story.caption) draw(story);
    const here = LX.sameSetting(S.view, story.view, S.family, boot.blocks);
    LX.find("story").querySelector('[data-lx-guide="again"]').hidden = here;
  };

  /* What the server says besides points and families; true when that was all there was to do. */
  LX.heard = (message) => {
    if (message.kind === "told") {
      told = message.told;
      LX.progress(null);
      refreshStory();
      LX.lessonTold();
      return true;
    }
    return LX.searchHeard(message);
  };
  LX.rested = () => {
    LX.storyRests();
    LX.lessonRests();
    LX.searchRests();
  };

  /* What a link opens besides its view. */
  LX.guided = (name) => {
    if (!name) { LX.closeStory(); LX.closeLesson(); }
    const [kind, own] = name.split("-");
    if (kind === "story") LX.openStory(own, false);
    if (kind === "lesson") LX.openLesson(own);
  };

  LX.begin = (api) => {
    page = api;
    words = api.boot.guide_texts;
    LX.panelNames = api.boot.panels;
    LX.startLesson(api);
    LX.startSearch(api);
    LX.explainWords(api.boot.glossary);
    document.addEventListener("click", (event) => {
      const chip = event.target.closest?.("[data-lx-story]");
      if (!chip) return;
      if (chip.dataset.lxStory === open) LX.closeStory();
      else LX.openStory(chip.dataset.lxStory, true);
    });
  };
})();
