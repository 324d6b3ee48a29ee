// Another home, and a setting by a word of its name or its explanation.
import { tell } from "./page.js";

const home = document.querySelector("[data-go]");
home.addEventListener("change", () => {
  location.href = home.value;
});

const find = document.querySelector("[data-find]");
find.addEventListener("input", () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const group of document.querySelectorAll(".setting-group")) {
    let any = false;
    for (const each of group.querySelectorAll("[data-words]")) {
      const fits = words.every((word) => each.dataset.words.includes(word));
      each.hidden = !fits;
      any ||= fits;
      found += fits ? 1 : 0;
    }
    group.hidden = !any;
  }
  tell(`${found} settings.`);
});
