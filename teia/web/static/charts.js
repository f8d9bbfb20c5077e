// Charts: instants in the reader's own zone, and the values below the pointer. The server draws the charts; the values
// are those of the table beneath each.

import { moment, timeZone } from "./dates.js";
import { meant } from "./keys.js";

const SVG = "http://www.w3.org/2000/svg";
const lang = document.documentElement.lang;
const forms = {
  second: new Intl.DateTimeFormat(lang, { timeStyle: "medium", hourCycle: "h23", timeZone }),
  time: new Intl.DateTimeFormat(lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone }),
  day: new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", timeZone }),
};
function showTicks(root) {
  for (const text of root.querySelectorAll("text[data-time]")) {
    text.textContent = forms[text.dataset.form].format(new Date(text.dataset.time));
  }
}
showTicks(document);
document.addEventListener("teia:region", (event) => showTicks(event.detail));

// t opens and closes the tables beneath all charts.
document.addEventListener("keydown", (event) => {
  if (!meant(event) || event.key !== "t") return;
  const tables = [...document.querySelectorAll("details.as-table")];
  const open = !tables.some((each) => each.open);
  for (const each of tables) each.open = open;
});

// ---- values below the pointer ---------------------------------------------------------------------------------------

// The row of a chart's table nearest to a place on its axis, and where that row is.
function nearestRow(svg, x) {
  const [low, high, left, right] = svg.dataset.ends.split(" ").map(Number);
  const grown = svg.dataset.axis === "log" ? (value) => Math.log10(Math.max(value, 1e-12)) : (value) => value;
  const place = (value) => left + ((grown(value) - grown(low)) / (grown(high) - grown(low) || 1)) * (right - left);
  let best = null;
  for (const row of svg.closest("figure").querySelectorAll("tr[data-x]")) {
    const at = place(Number(row.dataset.x));
    if (!best || Math.abs(at - x) < Math.abs(best.at - x)) best = { row, at };
  }
  return best;
}

function hideCrosshair() {
  for (const line of document.querySelectorAll("line.crosshair")) line.remove();
  for (const each of document.querySelectorAll(".readout")) each.hidden = true;
}

// Show the row nearest to a place; return the place of the row.
function showRow(svg, x) {
  const found = nearestRow(svg, x);
  if (!found) return x;
  const [, , , , top, bottom] = svg.dataset.ends.split(" ").map(Number);
  const names = [...svg.closest("figure").querySelectorAll("thead th")].slice(1).map((each) => each.textContent);
  const [first, ...values] = found.row.children;
  const time = first.querySelector("time");
  const when = time ? moment(new Date(time.getAttribute("datetime")), true) : first.textContent;
  const readout = svg.closest("figure").querySelector(".readout");
  readout.textContent = [when, ...values.map((each, index) => `${names[index]} ${each.textContent}`)].join(" · ");
  readout.hidden = false;
  const line = svg.querySelector("line.crosshair") ?? svg.appendChild(document.createElementNS(SVG, "line"));
  const ends = { class: "crosshair", x1: found.at, x2: found.at, y1: top, y2: bottom };
  for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
  return found.at;
}

// All charts of a page with the same axis show the same instant.
document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.("svg[data-ends]");
  if (!svg) return hideCrosshair();
  const box = svg.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
  const [low, high] = svg.dataset.ends.split(" ");
  hideCrosshair();
  const at = showRow(svg, x);
  for (const other of document.querySelectorAll(`svg.${svg.classList[0]}[data-axis="time"]`)) {
    if (other !== svg && other.dataset.ends.startsWith(`${low} ${high} `)) showRow(other, at);
  }
});
document.documentElement.addEventListener("pointerleave", hideCrosshair);
