// Before the first paint, so that a page in the dark does not flash.
const chosen = (() => {
  try {
    return localStorage.getItem("holdfast-theme");
  } catch {
    return null; // a browser that keeps nothing
  }
})();
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
