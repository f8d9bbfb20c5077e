// Live checks of the collection form while the user types: errors, dates, effects of rules. All of it is optional: the
// buttons of the form do the same. Only text is ever set.

const form = document.getElementById("draft");
const WAIT_MS = 300;
let timer = 0;
let asked = 0;

async function look() {
  const mine = ++asked;
  const sent = new URLSearchParams(new FormData(form));
  sent.set("step", "look");
  const csrf = sent.get("csrf");
  const collection = form.dataset.collection;
  const to = "/draft" + (collection ? "?c=" + encodeURIComponent(collection) : "");
  const answer = await fetch(to, { method: "POST", body: sent, headers: { "x-csrf-token": csrf } }).catch(() => null);
  if (!answer || !answer.ok || mine !== asked) return;
  show(await answer.json());
}

// The list of errors at the top has those that are left.
function shorten(problems) {
  const heading = document.getElementById("wrong");
  if (!heading) return;
  const left = [...document.querySelectorAll("[data-wrong]")].filter((line) => {
    line.hidden = !problems.some((each) => each.field === line.dataset.wrong);
    return !line.hidden;
  }).length;
  heading.textContent = left === 1 ? heading.dataset.one : heading.dataset.many.replace("%", left);
  heading.parentElement.hidden = left === 0;
}

// Rules stand in the order of their numbers, once the user has left the table: included ones first.
let order = [];
const table = document.getElementById("rules");
function arrange(rows) {
  order = rows;
  if (!table.contains(document.activeElement)) table.prepend(...order);
}
table.addEventListener("focusout", () => setTimeout(() => arrange(order)));

function show(view) {
  shorten(view.problems);
  for (const place of form.querySelectorAll("[data-fault]")) {
    const found = view.problems.find((each) => each.field === place.dataset.fault && touched.has(each.field));
    place.textContent = found ? found.message : "";
    const field = document.getElementById(place.dataset.fault);
    if (found) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
  const numbers = new Intl.NumberFormat(document.documentElement.lang);
  const rows = [...form.querySelectorAll("#rules tr")];
  const typed = rows.filter((row) => row.querySelector("[name=rule_value]").value.trim());
  const keeps = typed.filter((row) => row.querySelector("[name=rule_do]").value === "keep");
  const ordered = [...keeps, ...typed.filter((row) => !keeps.includes(row))];
  arrange(ordered);
  ordered.forEach((row, at) => {
    const rule = view.rules[at];
    if (!rule) return;
    row.querySelector("[data-rule-fault]").textContent = rule.problem;
    row.querySelector("[data-rule-remark]").textContent = rule.remark;
    row.querySelector("[data-rule-matches]").textContent = rule.matches === null ? "" : numbers.format(rule.matches);
    row.cells[0].textContent = rule.number ?? "";
  });
  const preview = document.getElementById("preview");
  preview.querySelector("[data-words]").textContent = view.preview.words;
  const dates = view.preview.shown.map((each) => each.split(" (")[0]).join(" · ");
  preview.querySelector("[data-dates]").textContent = dates ? preview.dataset.next + " " + dates : "";
  preview.querySelector("[data-warning]").textContent = view.warning ? "! " + view.warning : "";
  const list = document.getElementById("tried");
  const template = list.querySelector("template");
  for (const old of list.querySelectorAll("li")) old.remove();
  for (const each of view.tried) {
    const item = template.content.cloneNode(true);
    item.querySelector("strong").textContent = form.dataset[each.is_crawled ? "yes" : "no"];
    const steps = each.steps.map((step) => step.detail || step.name);
    item.querySelector(".chain").textContent = each.typed.slice(0, 300) + " · " + steps.join(" → ");
    list.append(item);
  }
}

// Fields whose errors are shown: those that the user changed, and those with an error of the last submit.
const touched = new Set(
  [...form.querySelectorAll("[data-fault]")].filter((place) => place.textContent).map((place) => place.dataset.fault),
);
form.addEventListener("input", (event) => {
  const name = event.target.name || "";
  touched.add(name.startsWith("rule_") ? "rules" : name.replace(/_(number|unit)$/, ""));
  clearTimeout(timer);
  timer = setTimeout(look, WAIT_MS);
});
