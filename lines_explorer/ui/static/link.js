/* The link in the address: written while the controls move, read when it is changed, kept over a reload. */
(() => {
  const LX = (window.LinesExplorer ??= {});
  const LINK_MS = 400, RETRY_MS = 2000, TOLD_MS = 1000, LEFT = "lines-explorer-left";

  /* Another program than the page's own answers at this address: its page may have other parts. */
  const replaced = async () => {
    const own = window.gradio_config?.app_id;
    const answer = await fetch("gradio_api/app_id").then((got) => got.json()).catch(() => null);
    return Boolean(own && answer?.app_id && answer.app_id !== own);
  };

  /* What to do about a question without an answer: wait. When that other program has had it twice and did not answer,
     the page is loaded anew. */
  let refused = 0;
  LX.unanswered = async () => {
    refused = (await replaced()) ? refused + 1 : 0;
    if (refused > 1) location.reload();
    await new Promise((done) => setTimeout(done, RETRY_MS));
  };

  /* Gradio tells of no control any more when its server went during an evaluation. A slider of which nobody was told a
     second after it moved tells itself: `known` gives a control's value as the page has it, `tell` takes the new one. */
  LX.tellSliders = (known, tell) => {
    document.getElementById("lx-controls").addEventListener("input", ({ target }) => {
      if (target.type === "range") setTimeout(() => untold(target.closest('[id^="lx-"]').id.slice(3), target), TOLD_MS);
    });
    const untold = async (name, slider) => {
      const missed = () => known(name) !== undefined && known(name) !== Number(slider.value);
      if (missed() && !(await fetch("gradio_api/app_id").then(() => true, () => false)) && missed()) tell(name, Number(slider.value));
    };
  };

  /* A browser may refuse a page inside another one to keep anything. */
  const stored = (work) => {
    try { return work(sessionStorage); } catch { return null; }
  };

  /* `read` asks the server what a hash opens, `open` shows it, `offline` says that no answer came; `moved` gives the
     view that no link tells of yet, or null. */
  LX.makeLink = ({ read, open, offline, moved }) => {
    let link = null, timer = 0, reading = false, unread = false, known = location.hash, left = null;

    /* At a pace that no browser minds; the history keeps one entry. A hash that is still to be read stays. */
    const write = () => {
      clearTimeout(timer);
      timer = 0;
      if (reading || link === null || location.hash !== known || known === `#${link}`) return;
      history.replaceState(history.state, "", `#${link}`);
      known = location.hash;
    };
    const soon = (newest) => {
      link = newest;
      timer ||= setTimeout(write, LINK_MS);
    };

    /* One question on its way, the newest hash wins. */
    const restore = async () => {
      unread = true;
      if (reading) return;
      reading = true;
      while (unread) {
        unread = false;
        known = location.hash;
        try {
          const opened = await read(known);
          if (unread) continue;
          link = null;
          open(left?.hash === known ? { ...opened, view: left.view } : opened);
        } catch {
          offline();
          await LX.unanswered();
          unread = true;
        }
      }
      left = null;
      reading = false;
    };
    window.addEventListener("hashchange", () => location.hash !== known && restore());

    /* The page is loaded anew, by itself when its server came back: sliders moved meanwhile stay where they are. */
    window.addEventListener("pagehide", () => {
      const view = reading ? null : moved();
      if (view) stored((place) => place.setItem(LEFT, JSON.stringify({ hash: location.hash, view })));
    });
    const begin = () => {
      left = JSON.parse(stored((place) => place.getItem(LEFT)) ?? null);
      stored((place) => place.removeItem(LEFT));
      if (location.hash.length > 1) restore();
    };
    return { begin, write, soon, get reading() { return reading; } };
  };
})();
