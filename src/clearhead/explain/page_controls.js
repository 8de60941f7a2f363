// Which kind of attention, layer, head, view and token: by buttons, keys and touch.

function choices(id, names, chosen, choose) {
  const made = names.map(([value, name]) =>
    make(
      "button",
      {
        type: "button",
        role: "radio",
        "aria-checked": String(value === chosen),
        tabindex: value === chosen ? "0" : "-1",
        "data-value": value,
        does: () => {
          choose(value);
          here(id).querySelector("[aria-checked=true]").focus();
        },
      },
      name,
    ),
  );
  refill(here(id), ...made);
  here(id).hidden = names.length < 2;
}

function options(id, names, chosen) {
  const made = names.map(([value, name]) => make("option", { value, selected: value === chosen }, name));
  refill(here(id), ...made).value = String(chosen);
}

function controls() {
  const one = part();
  const kinds = data.parts.map((each, place) => [place, NAMES[each.kind]]);
  choices("kinds", kinds, state.part, (value) => choosePart(Number(value)));
  choices("views", [["lines", "Lines"], ["matrix", "Matrix"]], state.view, (value) => {
    state.view = value;
    draw();
  });
  options("layer", one.layers.map((layer, place) => [place, String(layer)]), state.layer);
  const heads = one.heads.map((head, place) => [place, String(head)]);
  options("head", heads.length > 1 ? [[ALL, "all"], ...heads] : heads, state.head);
  for (const button of document.querySelectorAll("[data-step]")) {
    const { step, by } = button.dataset;
    button.setAttribute("aria-disabled", String(next(step, Number(by)) === state[step]));
  }
  for (const button of document.querySelectorAll("[data-head]"))
    button.setAttribute("aria-pressed", String(state.head === Number(button.dataset.head)));
}

function choosePart(place) {
  state.part = place;
  const one = part();
  state.layer = Math.min(state.layer, one.layers.length - 1);
  state.head = one.heads.length > 1 ? Math.min(state.head, one.heads.length - 1) : 0;
  letGo();
  sides();
  legend();
  draw();
}

function next(what, by) {
  const one = part();
  const least = what === "layer" || one.heads.length < 2 ? 0 : ALL;
  const most = (what === "layer" ? one.layers : one.heads).length - 1;
  return Math.max(least, Math.min(most, state[what] + by));
}

function step(what, by) {
  state[what] = next(what, by);
  draw();
}

function pick(side, token, kept) {
  state.side = side;
  state.token = token;
  state.kept = kept;
  draw();
}

function letGo() {
  state.token = NONE;
  state.kept = false;
}

// The token before or after, on the side that was last looked at.
function go(by) {
  const count = (state.side === "from" ? part().queries : part().keys).length;
  const from = state.token === NONE ? (by > 0 ? -1 : count) : state.token;
  pick(state.side, Math.max(0, Math.min(count - 1, from + by)), true);
  showToken();
}

const KEYS = {
  ArrowUp: () => step("layer", -1),
  ArrowDown: () => step("layer", 1),
  ArrowLeft: () => step("head", -1),
  ArrowRight: () => step("head", 1),
  j: () => go(1),
  k: () => go(-1),
  Escape: () => {
    letGo();
    draw();
  },
};

function pressed(event) {
  const inside = event.target.closest("#lines, #matrix, #views, #kinds") || event.target === document.body;
  if (!inside || !data.parts.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const group = event.target.closest("[role=radiogroup]");
  if (group && event.key.startsWith("Arrow")) {
    const buttons = [...group.children];
    const by = event.key === "ArrowRight" || event.key === "ArrowDown" ? 1 : -1;
    const at = buttons.indexOf(event.target) + by;
    if (buttons[at]) buttons[at].click();
    event.preventDefault();
    return;
  }
  const does = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!does) return;
  does();
  event.preventDefault();
}

function legend() {
  const one = part();
  const made = one.heads.map((head, place) =>
    make(
      "li",
      {},
      make(
        "button",
        {
          type: "button",
          "--colour": `var(--head-${place % 8})`,
          "data-head": place,
          does: () => {
            state.head = state.head === place && one.heads.length > 1 ? ALL : place;
            draw();
          },
        },
        String(head),
      ),
    ),
  );
  refill(here("legend"), make("li", { class: "quiet" }, "Heads"), ...made);
}

function draw() {
  controls();
  here("said").textContent = sentence();
  here("lines").hidden = state.view !== "lines";
  here("matrix").hidden = state.view !== "matrix";
  here("scale").hidden = state.view !== "matrix";
  if (state.view === "lines") drawLines();
  else drawMatrix();
  for (const told of afterDrawing) told();
}

const afterDrawing = [];

async function begin(given) {
  await open(given);
  here("model").textContent = data.model;
  here("size").textContent = data.size;
  here("seen").hidden = false;
  state.part = Math.min(state.part, data.parts.length - 1);
  answersInto(here("answers"), data);
  lensInto();
  choosePart(state.part);
}

function listen() {
  document.addEventListener("keydown", pressed);
  for (const name of ["layer", "head"])
    here(name).addEventListener("change", (event) => {
      state[name] = Number(event.target.value);
      draw();
    });
  for (const button of document.querySelectorAll("[data-step]"))
    button.addEventListener("click", () => step(button.dataset.step, Number(button.dataset.by)));
  const again = () => {
    if (data.parts.length) draw();
  };
  window.addEventListener("resize", again);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  listenLines();
  listenMatrix();
  here("more").addEventListener("click", moreRows);
}

window.addEventListener("DOMContentLoaded", async () => {
  here("model").textContent = data.model;
  here("size").textContent = data.size;
  listen();
  if (data.live) beginLive();
  else await begin(data);
  document.body.dataset.ready = "yes";
});
