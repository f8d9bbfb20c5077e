// Completion while typing, as an ARIA combobox: arrows choose, Enter searches, Escape closes. The field works without it.

const WAIT_MS = 120;
const MAX_CHARS = 200;
const input = document.querySelector("form.search input[type=search]");

if (input) {
  const list = document.createElement("ul");
  list.id = "completions";
  list.className = "completions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.labels[0]?.textContent ?? "");
  list.hidden = true;
  input.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false",
  })) input.setAttribute(name, value);

  let timer = 0;
  let asked = "";

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const choose = (option) => {
    input.value = option.textContent;
    close();
    input.form.requestSubmit();
  };

  const show = (completions) => {
    list.replaceChildren(...completions.map(({ text }, number) => {
      const option = document.createElement("li");
      option.id = `completion-${number}`;
      option.setAttribute("role", "option");
      option.textContent = text;
      // Before the field loses the focus, which closes the list.
      option.addEventListener("mousedown", (event) => { event.preventDefault(); choose(option); });
      return option;
    }));
    if (!completions.length) return close();
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    input.removeAttribute("aria-activedescendant");
  };

  const complete = async () => {
    const typed = (asked = input.value);
    const chosen = new URLSearchParams({ q: typed, c: input.form.elements.c?.value ?? "" });
    const answer = typed.trim() && typed.length <= MAX_CHARS && (await fetch(`/api/v1/complete?${chosen}`).catch(() => null));
    // Answers to earlier letters may arrive late.
    if (asked === typed && document.activeElement === input) show(answer?.ok ? (await answer.json()).completions : []);
  };

  const step = (by) => {
    const options = [...list.children];
    const at = options.findIndex((option) => option.id === input.getAttribute("aria-activedescendant"));
    const next = options[(at + by + options.length + (at < 0 && by < 0 ? 1 : 0)) % options.length];
    for (const option of options) option.setAttribute("aria-selected", String(option === next));
    input.setAttribute("aria-activedescendant", next.id);
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(complete, WAIT_MS);
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const active = document.getElementById(input.getAttribute("aria-activedescendant"));
    if (event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowUp") step(-1);
    else if (event.key === "Enter" && active) choose(active);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}
