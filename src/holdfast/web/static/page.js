// What every screen has: the switch for light and dark, keys, times that stay true.

const root = document.documentElement;

function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

for (const button of document.querySelectorAll("[data-theme-switch]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("holdfast-theme", root.dataset.theme);
    } catch {
      // It lasts as long as the page, then.
    }
    tell(root.dataset.theme === "dark" ? "Dark." : "Light.");
  });
}

/** Say something to whoever cannot see it. */
export function tell(text) {
  const live = document.querySelector("[data-live]");
  if (live) live.textContent = text;
}

/** Say why no answer came, once: the server has ended, or was started again and has another link. */
export function complain(element, error) {
  const text =
    error.message === "401"
      ? "This tab is from an earlier start of `holdfast web`. Open the link that the new start printed."
      : "The page has lost its server. Is `holdfast web` still running?";
  element.querySelector(":scope > [data-lost]")?.remove();
  const said = document.createElement("p");
  said.className = "notice error";
  said.dataset.lost = "";
  said.setAttribute("role", "alert");
  said.textContent = text;
  element.prepend(said);
}

/** Put the answer of an address in the place of an element. True when that worked. */
export async function put(element, address, options = {}) {
  element.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { credentials: "same-origin", ...options });
    if (!answer.ok) throw new Error(String(answer.status));
    const box = document.createElement("template");
    box.innerHTML = await answer.text();
    element.replaceChildren(box.content);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") complain(element, error);
    return false;
  } finally {
    element.removeAttribute("aria-busy");
  }
}

// Whoever came here to decide something goes on from the heading, not from the top of the page.
document.querySelector("[data-focus]")?.focus({ preventScroll: true });
document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

function isTyping(target) {
  return target.closest("input, textarea, select, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !isTyping(event.target)) {
    const field = document.querySelector("input[type=search]");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    } else {
      location.href = "/sessions#search";
    }
  }
});

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "yes";
  for (const button of form.querySelectorAll("button")) button.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("button")) button.removeAttribute("aria-busy");
  }
});
