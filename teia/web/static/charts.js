// Charts: instants in the reader's own zone. The charts themselves are drawn by the server.

import { timeZone } from "./dates.js";
import { meant } from "./keys.js";

const lang = document.documentElement.lang;
const forms = {
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
