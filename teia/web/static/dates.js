// An instant in the reader's own zone, as the server writes it too: 21 Nov 2026 02:00, or 21 nov. 2026 02:00.

const format = new Intl.DateTimeFormat(document.documentElement.lang, {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

export function moment(date) {
  const parts = Object.fromEntries(format.formatToParts(date).map((part) => [part.type, part.value]));
  return `${parts.day} ${parts.month} ${parts.year} ${parts.hour}:${parts.minute}`;
}
