// Controls that were moved: the plan that they make, at once, and in the address.
import { put, tell } from "./page.js";

const form = document.querySelector("[data-live-plan]");
const place = document.querySelector("[data-plan]");
let asked = false;
let again = false;
let timer = 0;

/** What differs from the configuration; the rest would only make the address long. */
function wanted() {
  const found = new URLSearchParams();
  for (const field of form.elements) {
    if (!field.name || field.type === "range") continue;
    const usual = field.dataset.usual;
    const kept = field.name === "home" || field.name === "what" || field.name === "trash";
    if (kept || (field.value !== "" && field.value !== usual)) found.set(field.name, field.value);
    field.closest(".control")?.classList.toggle("changed", !kept && field.value !== "" && field.value !== usual);
  }
  return found;
}

/** One question at a time: whoever drags a slider asks for the last place, not for all of them. */
async function plan() {
  if (asked) {
    again = true;
    return;
  }
  asked = true;
  const query = wanted();
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(`/cleanup/plan?${query}`, { credentials: "same-origin" });
    if (!answer.ok && answer.status !== 400) throw new Error(String(answer.status));
    const box = document.createElement("template");
    box.innerHTML = await answer.text();
    place.replaceChildren(box.content);
    const said = place.querySelector("[data-summary]")?.dataset.summary;
    tell(said ?? place.textContent.trim());
  } catch {
    await put(place, `/cleanup/plan?${query}`); // says that the server is gone
  } finally {
    asked = false;
    place.removeAttribute("aria-busy");
  }
  if (again) {
    again = false;
    await plan();
  }
}

function soon(wait) {
  history.replaceState(null, "", `/cleanup?${wanted()}`); // who leaves before the plan comes keeps it
  clearTimeout(timer);
  timer = setTimeout(plan, wait);
}

for (const range of form.querySelectorAll("input[type=range]")) {
  const field = document.getElementById(range.dataset.for);
  range.hidden = false;
  range.addEventListener("input", () => {
    field.value = range.value;
    soon(120);
  });
  field.addEventListener("input", () => {
    range.value = field.value === "" ? field.dataset.usual || 0 : field.value;
  });
}
form.addEventListener("input", (event) => {
  if (event.target.type !== "range" && event.target.name !== "home") soon(250);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  soon(0);
});
// Another home has other controls.
form.elements.home.addEventListener("change", () => {
  location.href = `/cleanup?home=${encodeURIComponent(form.elements.home.value)}&what=${form.elements.what.value}`;
});
