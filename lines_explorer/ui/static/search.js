/* The search buttons: the grid appears in the plane as it is evaluated, then the sliders go to the chosen point. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const rings = { key: null, figure: null };
  let page, words, hunting = null;

  /* Rings around the points tried, as long as the plane shows the line they lie on. */
  LX.searchedOf = (key) => (rings.key === key ? rings.figure : null);

  const buttons = (name) => document.querySelector(`[data-lx-search="${name}"]`);
  const busy = (on) => {
    for (const name of ["rule", "keep"]) buttons(name).disabled = on;
    buttons("stop").hidden = !on;
    if (!on) document.querySelector(".lx-search-count").textContent = "";
  };
  const ring = (message) => {
    Object.assign(rings, { key: message.key, figure: message.figure });
    LX.drawExtras({ searched: LX.searchedOf(page.S.family?.key) }).then(LX.redraw);
  };

  const seek = (rule) => {
    LX.putWords(LX.find("searched"), "");
    page.renew();
    hunting = page.S.number;
    busy(true);
    page.ask("search", { rule });
  };
  const end = () => {
    hunting = null;
    busy(false);
  };

  /* Without control tasks there is no control to keep. */
  LX.offerSearch = (family) => { buttons("keep").hidden = !family.controls.length; };

  /* The sliders rest elsewhere: whatever became of the search, it is over. */
  LX.searchRests = () => hunting !== null && page.S.number !== hunting && end();

  LX.searchHeard = (message) => {
    if (hunting === null || message.number !== hunting) return ["search", "found"].includes(message.kind);
    if (message.kind === "end" || message.kind === "error") { end(); return false; }
    if (!["search", "found"].includes(message.kind) || page.S.number !== hunting) return false;
    ring(message);
    if (message.kind === "search") {
      const [done, all] = message.at;
      document.querySelector(".lx-search-count").textContent = LX.fill(all ? words.tried : words.finer, { done, all });
      return true;
    }
    end();
    LX.progress(null);
    LX.putWords(LX.find("searched"), message.said);
    page.open(message.view, {});
    return true;
  };

  LX.startSearch = (api) => {
    page = api;
    words = api.boot.search_texts;
    document.addEventListener("click", (event) => {
      const button = event.target.closest?.("[data-lx-search]");
      if (!button) return;
      if (button.dataset.lxSearch === "stop") { end(); page.renew(); LX.progress(null); }
      else if (LX.complete(page.S.view)) seek(button.dataset.lxSearch);
    });
  };
})();
