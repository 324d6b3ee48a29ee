// The page came with the figures of the last look. Fetch new ones in the background.
import { put, tell } from "./page.js";

const figures = document.querySelector("[data-figures]");
if (figures && "stale" in figures.dataset) {
  if (await put(figures, figures.dataset.figures)) tell("The figures are up to date.");
}
