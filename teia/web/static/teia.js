// Conveniences where scripts run; no page needs them. No markup is ever made from text.

import "./complete.js";
import { moment, timeZone } from "./dates.js";
import { meant } from "./keys.js";

// Instants in the reader's own zone, also in the regions of live pages that are shown anew.
function showInstants(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const shown = moment(new Date(time.dateTime), "seconds" in time.dataset);
    if (time.title) time.title = shown;
    else time.textContent = shown;
  }
  for (const zone of root.querySelectorAll("[data-zone]")) zone.textContent = timeZone ?? "UTC";
}
showInstants(document);
document.addEventListener("teia:region", (event) => showInstants(event.detail));

// An invitation's code comes behind the # of its address, so that no server ever logs it.
const field = document.querySelector("input[data-from-address]");
if (field && location.hash.length > 1) {
  field.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  // Who comes with an invitation has no account to sign in with: its form is the first one.
  const invited = field.closest("section");
  invited.parentElement.prepend(invited);
  document.getElementById("new-name").focus();
}

// ---- keys -----------------------------------------------------------------------------------------------------------

const list = document.getElementById("keys");
const opener = document.querySelector("[data-show-keys]");
opener.hidden = false;
opener.addEventListener("click", () => list.showModal());

// The first link of every row and result: the targets of j and k.
const rows = () => [...document.querySelectorAll("main .hits h2 a, main tbody tr, main ul.links li")]
  .map((row) => (row.matches("a") ? row : row.querySelector("a")))
  .filter((link) => link?.checkVisibility());

function step(by) {
  const links = rows();
  const next = links[links.indexOf(document.activeElement) + by] ?? (by > 0 ? links[0] : links.at(-1));
  next?.focus();
}

// The result or row that has the focus, or the first result.
const current = () => {
  const here = document.activeElement;
  return here.closest(".hits > li") ?? here.closest("main li, main tr") ?? document.querySelector("main .hits > li");
};

function versions() {
  const link = current()?.querySelector("[data-versions]");
  if (link) link.click();
  else if (document.getElementById("versions")) location.hash = "versions";
}

const KEYS = {
  "/": () => document.querySelector("input[type=search]")?.focus(),
  "?": () => list.showModal(),
  j: () => step(1),
  k: () => step(-1),
  v: versions,
  c: () => current()?.querySelector("[data-capture]")?.click(),
};
let goes = 0;

document.addEventListener("keydown", (event) => {
  if (!meant(event) || list.open) return;
  // g, then where to: within a second and a half.
  const way = Date.now() < goes && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
  goes = event.key === "g" ? Date.now() + 1500 : 0;
  const marked = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
  if (way) way.click();
  else if (marked) marked.click();
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
});
