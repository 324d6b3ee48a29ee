// Keys for reading a difference: n and p go from file to file, as in a pager.
const files = [...document.querySelectorAll(".files li a")];
const current = files.findIndex((link) => link.hasAttribute("aria-current"));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const step = { n: 1, j: 1, p: -1, k: -1 }[event.key];
  const next = files[current + step];
  if (next) next.click();
});
files[current]?.scrollIntoView({ block: "nearest" });

// Without a choice "the chosen" would mean everything.
const button = document.querySelector("[data-chosen-paths]");
function count() {
  const chosen = document.querySelectorAll(".files input:checked").length;
  button.disabled = chosen === 0;
  button.textContent = chosen ? `Restore ${chosen} chosen…` : "Restore the chosen…";
}
if (button) {
  button.form.addEventListener("change", count);
  count();
}
