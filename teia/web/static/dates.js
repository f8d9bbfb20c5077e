// An instant in the reader's own zone, as the server writes it too: 21 Nov 2026 02:00, or 21 nov. 2026 02:00.

// The zone that the reader chose, or else that of the browser.
export const timeZone = document.documentElement.dataset.timeZone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;

const parts = {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
  timeZone,
};
const format = new Intl.DateTimeFormat(document.documentElement.lang, parts);
const exact = new Intl.DateTimeFormat(document.documentElement.lang, { ...parts, second: "2-digit" });

export function moment(date, seconds = false) {
  const found = (seconds ? exact : format).formatToParts(date);
  const at = Object.fromEntries(found.map((part) => [part.type, part.value]));
  return `${at.day} ${at.month} ${at.year} ${at.hour}:${at.minute}${seconds ? `:${at.second}` : ""}`;
}
