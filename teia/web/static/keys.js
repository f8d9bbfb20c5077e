// Key presses that are meant for a page: none in a field, none with a modifier, and none if the user turned them off.

export function meant(event) {
  if (document.documentElement.dataset.keys === "off") return false;
  const inField = event.target.closest?.("input, textarea, select, [contenteditable]");
  return !inField && !event.ctrlKey && !event.metaKey && !event.altKey;
}
