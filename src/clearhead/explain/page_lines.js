// Tokens on both sides and lines between them: the stronger, the heavier.

const ROW = 28; // pixels of a token's row, as the style has it

function sides() {
  const one = part();
  const button = (side) => (token, place) =>
    make(
      "li",
      {},
      make(
        "button",
        { type: "button", class: "token", "data-side": side, "data-place": place, tabindex: place ? -1 : 0 },
        word(token),
      ),
    );
  refill(here("from"), ...one.queries.map(button("from")));
  refill(here("to"), ...one.keys.map(button("to")));
  here("from").setAttribute("aria-label", one.kind === "encoder" ? "Tokens of the text" : "Tokens that look");
  here("to").setAttribute("aria-label", "Tokens that are looked at");
}

function tokenOf(event) {
  const button = event.target instanceof Element && event.target.closest(".token");
  return button ? [button.dataset.side, Number(button.dataset.place)] : null;
}

function showToken() {
  const button = here(state.side).children[state.token]?.firstChild;
  if (state.view === "lines" && button) {
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function listenLines() {
  const box = here("lines");
  box.addEventListener("scroll", () => state.view === "lines" && drawThreads());
  box.addEventListener("pointerover", (event) => {
    const found = tokenOf(event);
    if (found && event.pointerType !== "touch" && !state.kept) pick(...found, false);
  });
  box.addEventListener("pointerleave", () => {
    if (!state.kept && state.token !== NONE) {
      letGo();
      draw();
    }
  });
  box.addEventListener("focusin", (event) => {
    const found = tokenOf(event);
    if (found && !state.kept && event.target.matches(":focus-visible")) pick(...found, false);
  });
  box.addEventListener("click", (event) => {
    const found = tokenOf(event);
    if (!found) return;
    const again = state.kept && state.side === found[0] && state.token === found[1];
    if (again) letGo();
    if (again) draw();
    else pick(...found, true);
  });
}

// The shares of the token that is looked at, on the other side; strips of a cell a head where all are shown.
function drawShares() {
  const one = part();
  const other = state.side === "from" ? "to" : "from";
  const heads = shownHeads();
  for (const side of ["from", "to"]) {
    const buttons = here(side).querySelectorAll(".token");
    buttons.forEach((button, place) => {
      const chosen = side === state.side && place === state.token;
      const reached = side === other && state.token !== NONE;
      const pair = side === "to" ? [state.token, place] : [place, state.token];
      const share = reached ? shownWeight(...pair) : 0;
      button.style.setProperty("--share", share.toFixed(3));
      button.setAttribute("aria-pressed", String(chosen));
      const first = !place && (state.side !== side || state.token === NONE);
      button.setAttribute("tabindex", chosen || first ? "0" : "-1");
      button.classList.toggle("reached", reached && share >= 0.0005);
      const children = [button.firstChild];
      if (reached) children.push(make("span", { class: "share" }, share < 0.0005 ? "" : percent(share)));
      if (reached && heads.length > 1 && heads.length <= 32) {
        const cells = heads.map((head) =>
          make("i", {
            "--colour": `var(--head-${head % 8})`,
            "--share": Math.sqrt(weight(one, state.layer, head, ...pair)).toFixed(3),
          }),
        );
        children.push(make("span", { class: "strip-of-heads", "aria-hidden": "true" }, ...cells));
      }
      button.replaceChildren(...children);
    });
  }
}

function drawLines() {
  drawShares();
  const box = here("lines");
  box.style.setProperty("--rows", Math.max(part().queries.length, part().keys.length));
  drawThreads();
}

function drawThreads() {
  const one = part();
  const box = here("lines");
  const canvas = here("threads");
  const rows = Math.max(one.queries.length, one.keys.length);
  const height = Math.min(rows * ROW, box.clientHeight);
  const width = canvas.parentElement.clientWidth - here("from").offsetWidth - here("to").offsetWidth;
  const pen = sized(canvas, width, height);
  const top = box.scrollTop;
  const heads = shownHeads();
  const alone = state.token !== NONE;
  const queries = alone && state.side === "from" ? [state.token] : [...one.queries.keys()];
  const keys = alone && state.side === "to" ? [state.token] : [...one.keys.keys()];
  const least = alone ? 1 : 255 * leastDrawn();
  const centre = (place) => place * ROW + ROW / 2 - top;
  const single = colour("--accent");
  for (const head of heads) {
    pen.strokeStyle = heads.length > 1 ? headColour(head) : single;
    const shift = heads.length > 1 ? (head / (heads.length - 1) - 0.5) * 10 : 0;
    for (const query of queries) {
      const from = centre(query) + shift;
      const row = rowOf(one, state.layer, head, query);
      for (const key of keys) {
        if (bytes[row + key] < least) continue;
        const share = bytes[row + key] / 255;
        const to = centre(key) + shift;
        if (Math.max(from, to) < -ROW || Math.min(from, to) > height + ROW) continue;
        pen.globalAlpha = Math.min(1, (alone ? 0.1 : 0.12) + share * 0.95);
        pen.lineWidth = 0.75 + 3 * share;
        pen.beginPath();
        pen.moveTo(0, from);
        pen.bezierCurveTo(width * 0.4, from, width * 0.6, to, width, to);
        pen.stroke();
      }
    }
  }
  pen.globalAlpha = 1;
}
