// Live pages. A stream sends changes; if there are too many streams, the page polls its JSON route. Nothing is
// requested while the tab is hidden or updates are paused. Only text and attributes are set, rows are cloned from
// templates, and regions are taken from the page as the server renders it now: no markup is ever made from text.

import { moment, timeZone } from "./dates.js";
import { meant } from "./keys.js";

const POLL_MS = 10_000;
const AGAIN_MS = 3_000;
const STALE_MS = 15_000;
const SAY_MS = 30_000;
const RENEW_MS = 10_000;
const RENEW_GAP_MS = 1_000;
const lang = document.documentElement.lang;

// ---- values as people write them ------------------------------------------------------------------------------------

const numbers = new Map();
function number(value, digits = 0) {
  if (!numbers.has(digits)) {
    const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    numbers.set(digits, new Intl.NumberFormat(lang, form));
  }
  return numbers.get(digits).format(value);
}

function size(octets) {
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (octets < 999.5 || unit === "TB") return `${number(octets, octets < 9.95 && unit !== "B" ? 1 : 0)} ${unit}`;
    octets /= 1000;
  }
}

function span(seconds) {
  if (seconds > 0 && seconds < 0.995) return `${Number(seconds.toFixed(2)).toLocaleString(lang)} s`;
  if (seconds < 10) return `${number(seconds, seconds % 1 ? 1 : 0)} s`;
  if (seconds < 60) return `${number(seconds)} s`;
  const [unit, length, part, parts] =
    seconds < 3600 ? ["min", 60, "s", 1] : seconds < 86400 ? ["h", 3600, "min", 60] : ["d", 86400, "h", 3600];
  const whole = Math.floor(seconds / length);
  const rest = Math.floor((seconds % length) / parts);
  return `${number(whole)} ${unit}` + (rest && whole < 100 ? ` ${rest} ${part}` : "");
}

const clock = new Intl.DateTimeFormat(lang, { timeStyle: "medium", hourCycle: "h23", timeZone });
const FORMS = {
  text: (value) => String(value),
  number: (value, digits) => number(value, digits),
  percent: (value, digits) => `${number(100 * value, digits)}%`,
  size,
  span,
  clock: (value) => clock.format(new Date(value)),
  moment: (value) => moment(new Date(value)),
  until: (value) => span(Math.max(0, Math.round((new Date(value) - Date.now()) / 1000))),
};

function shown(element, value) {
  if (value === null || value === undefined || value === "") return element.dataset.none ?? "–";
  if (element.dataset.words) return JSON.parse(element.dataset.words)[value] ?? String(value);
  const [form, digits] = (element.dataset.as ?? "text").split(":");
  return FORMS[form](value, Number(digits ?? 0));
}

// ---- a record put into the page -------------------------------------------------------------------------------------

const at = (record, path) => path.split(".").reduce((value, key) => value?.[key], record);

// A sentence: in English as the record has it, else as the stream translates it; without a translation, in English.
// The JSON of a page, which is polled, has no translations: what is shown stays, unless that is the sign for nothing.
// Instants in it are shown like all others.
const instants = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (found) => moment(new Date(found), true));
function sentence(record, element, value) {
  if (lang === "en") return instants(value);
  if (record.said) return instants(record.said[element.dataset.live] ?? value);
  return element.textContent === shown(element, "") ? value : element.textContent || value;
}

// Number of texts and regions that were changed since the page came.
let changes = 0;

function put(element, value) {
  const text = shown(element, value);
  if (element.textContent !== text) {
    element.textContent = text;
    changes += 1;
  }
  // The colour of a state follows its word.
  if (element.classList.contains("state")) element.className = `state ${value}`;
  if (element.dataset.href) element.setAttribute("href", element.dataset.href + encodeURIComponent(value));
}

function fill(list, rows) {
  const template = list.querySelector("template");
  const made = rows.map((row) => {
    const copy = template.content.cloneNode(true);
    for (const cell of copy.querySelectorAll("[data-f]")) put(cell, at(row, cell.dataset.f));
    return copy;
  });
  list.replaceChildren(template, ...made);
}

// A list that grows is shown anew only on the user's request: nothing moves by itself.
function grow(list, rows) {
  const key = list.dataset.grows;
  const button = document.querySelector(`[data-show="${list.id}"]`);
  const newest = Number(list.dataset.newest ?? 0);
  const fresh = rows.filter((row) => row[key] > newest).length;
  const show = () => {
    fill(list, rows);
    list.dataset.newest = rows[0]?.[key] ?? newest;
    button.hidden = true;
  };
  if (!list.dataset.newest) return show();
  button.hidden = !fresh;
  changes += fresh;
  button.textContent = button.dataset.label.replace("%", number(fresh));
  button.onclick = show;
}

function apply(record) {
  for (const element of document.querySelectorAll("[data-live]")) {
    const value = at(record, element.dataset.live);
    if (value && "said" in element.dataset) put(element, sentence(record, element, value));
    else if (value !== undefined) put(element, value);
  }
  for (const element of document.querySelectorAll("[data-live-value]")) {
    const value = at(record, element.dataset.liveValue);
    if (value === null) element.removeAttribute("value");
    else if (value !== undefined) element.setAttribute("value", value);
  }
  for (const element of document.querySelectorAll("[data-live-if]")) {
    element.hidden = !at(record, element.dataset.liveIf);
  }
  for (const element of document.querySelectorAll("[data-live-unless]")) {
    element.hidden = Boolean(at(record, element.dataset.liveUnless));
  }
  for (const list of document.querySelectorAll("[data-live-list]")) {
    const rows = (at(record, list.dataset.liveList) ?? []).slice(0, Number(list.dataset.most ?? 100));
    if (list.dataset.grows) grow(list, rows);
    else fill(list, rows);
  }
}

// ---- regions: parts of the page that the server renders anew ---------------------------------------------------------

const CONTROLS = "a, button, input, select, textarea, summary";
const TYPED = "input, select, textarea";

// Replace a region by its new form. The user keeps the focus, and what was unfolded stays so.
function replace(region, made) {
  const focused = [...region.querySelectorAll(CONTROLS)].indexOf(document.activeElement);
  const unfolded = [...region.querySelectorAll("details")].map((each) => each.open);
  made.querySelectorAll("details").forEach((each, index) => {
    if (index in unfolded) each.open = unfolded[index];
  });
  document.dispatchEvent(new CustomEvent("teia:region", { detail: made }));
  if (made.isEqualNode(region)) return;
  changes += 1;
  region.replaceWith(made);
  if (focused >= 0) [...made.querySelectorAll(CONTROLS)].slice(0, focused + 1).at(-1)?.focus({ preventScroll: true });
}

function renewRegions(fresh) {
  for (const region of document.querySelectorAll("[data-region]")) {
    const other = fresh.querySelector(`[data-region="${region.dataset.region}"]`);
    // A field that the user fills in is not touched.
    const isTyping = region.contains(document.activeElement) && document.activeElement.matches(TYPED);
    if (other && !isTyping) replace(region, document.adoptNode(other));
  }
}

// ---- a stream, or polling -------------------------------------------------------------------------------------------

class Live {
  constructor(root) {
    this.root = root;
    this.topic = root.dataset.topic;
    this.pauseButton = root.querySelector("[data-pause]");
    this.stale = root.querySelector("[data-stale]");
    this.summary = root.querySelector("[data-summary]");
    this.shape = JSON.parse(root.dataset.shape || "{}");
    this.renewed = Date.now();
    this.paused = false;
    this.heard = Date.now();
    this.said = Date.now();
    // There is nothing to pause before something moves; its place is kept, so that nothing moves for it.
    this.bar = root.querySelector("[data-live-bar]");
    this.bar.hidden = false;
    this.bar.classList.add("still");
    this.pauseButton.addEventListener("click", () => this.pause(!this.paused));
    document.addEventListener("visibilitychange", () => this.turn());
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("pagehide", () => this.close());
    setInterval(() => this.look(), 1000);
    this.turn();
  }

  key(event) {
    if (meant(event) && event.key === "p") this.pause(!this.paused);
  }

  pause(wanted) {
    this.paused = wanted;
    this.bar.classList.remove("still");
    this.pauseButton.setAttribute("aria-pressed", String(wanted));
    const label = this.pauseButton.querySelector("span");
    label.textContent = this.pauseButton.dataset[wanted ? "resume" : "label"];
    this.turn();
  }

  // Start or stop, by the visibility of the tab and the user's choice.
  turn() {
    this.close();
    this.heard = Date.now();
    if (!this.paused && !document.hidden) this.open();
  }

  open() {
    this.source = new EventSource(this.root.dataset.events);
    this.source.addEventListener(this.topic, (event) => this.take(JSON.parse(event.data)));
    this.source.addEventListener("yield", () => {
      this.close();
      this.poll();
    });
    this.source.addEventListener("error", () => {
      if (this.source?.readyState === EventSource.CLOSED) this.again(() => this.turn());
    });
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
  }

  again(what, after = AGAIN_MS) {
    clearTimeout(this.timer);
    this.timer = setTimeout(what, after);
  }

  async poll() {
    this.again(() => this.poll(), POLL_MS);
    try {
      const answer = await fetch(this.root.dataset.twin, { headers: { accept: "application/json" } });
      if (answer.ok && !this.paused && !document.hidden) this.take(await answer.json());
    } catch {
      // the notice of stale data reports it
    }
  }

  take(record) {
    if (this.paused) return;
    this.heard = Date.now();
    this.stale.hidden = true;
    if (!record.error) {
      const before = changes;
      apply(record);
      // The first record is the page as it came, but for the form of some values.
      if (this.isFollowing && changes > before) this.bar.classList.remove("still");
      this.isFollowing = true;
      if (this.isReshaped(record) || Date.now() - this.renewed > RENEW_MS) this.renew();
    }
    document.dispatchEvent(new CustomEvent("teia:live", { detail: record }));
  }

  // The regions depend on these values of the record: buttons on the state, sentences on what is known.
  isReshaped(record) {
    const changed = Object.keys(this.shape).filter((path) => (at(record, path) ?? null) !== this.shape[path]);
    for (const path of changed) this.shape[path] = at(record, path) ?? null;
    return changed.length > 0;
  }

  // Get the page as it is now. XMLHttpRequest makes a document of it that runs no script.
  renew() {
    if (this.asking) {
      this.isOutdated = true;
      return;
    }
    this.asking = new XMLHttpRequest();
    this.asking.open("GET", location.href);
    this.asking.responseType = "document";
    this.asking.addEventListener("loadend", () => {
      const { status, response } = this.asking;
      this.renewed = Date.now();
      if (status === 200 && response && !this.paused) renewRegions(response);
      setTimeout(() => {
        this.asking = null;
        if (this.isOutdated && !this.paused && !document.hidden) this.renew();
        this.isOutdated = false;
      }, RENEW_GAP_MS);
    });
    this.asking.send();
  }

  look() {
    if (this.paused || document.hidden) return;
    if (Date.now() - this.heard > STALE_MS && this.stale.hidden) {
      this.stale.querySelector("time").textContent = clock.format(new Date(this.heard));
      this.stale.hidden = false;
    }
    if (Date.now() - this.said > SAY_MS) {
      this.said = Date.now();
      const words = [...document.querySelectorAll("[data-say]")].map((each) => `${each.dataset.say} ${each.textContent}`);
      this.summary.textContent = words.join(", ");
    }
  }
}

const root = document.querySelector("[data-events]");
if (root) new Live(root);
