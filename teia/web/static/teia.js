// What makes pages nicer where scripts run; nothing here is needed. No markup is ever made from text.

// Instants in the reader's own zone.
const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = format.format(new Date(time.dateTime));
  if (time.title) time.title = moment;
  else time.textContent = moment;
}

// An invitation's code comes behind the # of its address, so that no server ever logs it.
const field = document.querySelector("input[data-from-address]");
if (field && location.hash.length > 1) {
  field.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
}

// Keys: / goes to the search field.
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, textarea, select, [contenteditable]");
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      search.focus();
      event.preventDefault();
    }
    return;
  }
  // What a page marks with a key: older and newer versions, say.
  for (const marked of document.querySelectorAll("[data-key]")) {
    if (marked.dataset.key === event.key) {
      marked.click();
      event.preventDefault();
      return;
    }
  }
});
