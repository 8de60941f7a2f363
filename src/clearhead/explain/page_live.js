// Live: the server on this machine is asked again for each text and each head that is switched.

let off = [];
let asked = 0;

function sameHead(a, b) {
  return a[0] === b[0] && a[1] === b[1] && a[2] === b[2];
}

// The heads that the controls stand at: one, or all of a layer.
function chosenHeads() {
  const one = part();
  return shownHeads().map((head) => [one.kind, one.layers[state.layer], one.heads[head]]);
}

function drawSwitches() {
  const some = chosenHeads();
  const gone = some.every((head) => off.some((other) => sameHead(head, other)));
  const layer = part().layers[state.layer];
  const what = some.length > 1 ? `all heads of layer ${layer}` : `head ${some[0][2]} of layer ${layer}`;
  here("switch").textContent = `Switch ${gone ? "on" : "off"} ${what}`;
  here("switch").setAttribute("aria-pressed", String(gone));
  here("on").hidden = !off.length;
  const made = off.map((head) =>
    make(
      "li",
      {},
      make(
        "button",
        {
          type: "button",
          "aria-label": `Switch on head ${head[2]} of layer ${head[1]}`,
          does: () => {
            setOff(off.filter((other) => !sameHead(head, other)));
            here("switch").focus(); // the button that was pressed is gone
          },
        },
        `${data.parts.length > 1 ? `${NAMES[head[0]]}, ` : ""}layer ${head[1]}, head ${head[2]} ×`,
      ),
    ),
  );
  refill(here("off"), ...made);
}

function setOff(heads) {
  off = heads;
  drawSwitches();
  ask();
}

function toggle() {
  const some = chosenHeads();
  const gone = some.every((head) => off.some((other) => sameHead(head, other)));
  const rest = off.filter((head) => !some.some((other) => sameHead(head, other)));
  setOff(gone ? rest : [...rest, ...some]);
}

async function ask() {
  const number = ++asked;
  const context = here("context").value;
  here("state").textContent = "Looking …";
  here("trouble").textContent = "";
  try {
    const answer = await fetch("look", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text: here("typed").value, pair: context || null, off }),
    }).catch(() => {
      throw new Error("The server is not there any more; start it again.");
    });
    const found = await answer.json();
    if (number !== asked) return; // another question has been asked meanwhile
    if (!answer.ok) throw new Error(found.error);
    await begin({ ...found, live: true });
    if (found.before) compared(found);
  } catch (error) {
    if (number !== asked) return;
    here("trouble").textContent = error.message;
  }
  here("state").textContent = "";
  document.body.dataset.asked = String(number);
}

// The answer with heads switched off beside that with all of them on.
function compared(found) {
  const [one, other] = [make("div"), make("div")];
  answersInto(one, data);
  answersInto(other, { ...data, ...found.before, parts: [] });
  const many = off.length === 1 ? "1 head" : `${off.length} heads`;
  refill(
    here("answers"),
    make(
      "div",
      { class: "compared" },
      make("div", { id: "after" }, make("h3", { class: "quiet" }, `With ${many} switched off`), one),
      make("div", { id: "before" }, make("h3", { class: "quiet" }, "With all heads on"), other),
    ),
  );
}

function beginLive() {
  here("beside").hidden = !data.pairs;
  here("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  for (const name of ["typed", "context"])
    here(name).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) here("ask").requestSubmit();
    });
  here("switch").addEventListener("click", toggle);
  here("on").addEventListener("click", () => {
    setOff([]);
    here("switch").focus();
  });
  afterDrawing.push(drawSwitches);
  const [text, pair] = data.texts || [];
  if (pair) here("context").value = pair;
  if (text) {
    here("typed").value = text;
    ask();
  } else here("typed").focus();
}
