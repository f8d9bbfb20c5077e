// The circle: a node's arcs, points and rows light up together, and arcs follow their owners. Only classes,
// attributes and text are set.

const svg = document.querySelector("svg.ring");
const rows = [...document.querySelectorAll("table.nodes tr[data-node]")];

function light(name) {
  for (const each of document.querySelectorAll("[data-node]")) each.classList.toggle("lit", name !== "" && each.dataset.node === name);
  svg?.classList.toggle("dim", name !== "");
}

const named = (event) => event.target.closest?.("[data-node]")?.dataset.node ?? "";
document.addEventListener("pointerover", (event) => light(named(event)));
document.addEventListener("focusin", (event) => light(named(event)));
document.addEventListener("focusout", () => light(""));

// The row of a node holds its style.
const looks = new Map(rows.map((row) => [row.dataset.node, row.dataset]));

document.addEventListener("teia:live", ({ detail }) => {
  if (!detail.nodes) return;
  const changed = document.querySelector("[data-ring-changed]");
  if (rows.length && changed) changed.hidden = detail.nodes.every((node) => looks.has(node.name)) && detail.nodes.length === rows.length;
  if (!svg || svg.querySelectorAll("[data-cell]").length !== detail.cells.length) return;
  for (const cell of detail.cells) {
    const arc = svg.querySelector(`[data-cell="${CSS.escape(cell.id)}"]`);
    const look = looks.get(cell.keeper ?? "");
    if (!arc || (cell.keeper && !look)) continue;
    arc.dataset.node = cell.keeper ?? "";
    arc.setAttribute("class", `cell n${look?.hue ?? 0}${cell.to ? " moving" : ""}${cell.keeper ? "" : " lost"}`);
    const letter = arc.querySelector("text");
    if (letter) letter.textContent = look?.letter ?? "";
  }
});
