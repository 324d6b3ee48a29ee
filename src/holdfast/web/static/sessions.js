// Search as you type; filters at once. The address says what is shown, so it can be kept.
import { put, tell } from "./page.js";

const form = document.querySelector("[data-sessions]");
const results = document.querySelector("[data-results]");
let waiting = 0;
let running = null;
let following = 0;

function address(path) {
  const said = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value && !(name === "sort" && value === "active")) said.append(name, value);
  }
  const query = said.toString();
  return query ? `${path}?${query}` : path;
}

async function show() {
  running?.abort();
  running = new AbortController();
  history.replaceState(null, "", address("/sessions"));
  const done = await put(results, address("/sessions/results"), { signal: running.signal });
  if (done) {
    prepare();
    follow();
    const found = results.querySelectorAll("tbody tr, .hits > li").length;
    tell(found === 0 ? "Nothing was found." : `${found} on this page.`);
  }
}

/** The first search makes an index of all that was said: how far it is, until it is there. */
function follow() {
  clearTimeout(following);
  if (results.querySelector("[data-indexing]")) following = setTimeout(ask, 700);
}

async function ask() {
  const place = results.querySelector("[data-indexing]");
  if (!place) return;
  let answer;
  try {
    answer = await fetch(place.dataset.indexing, { credentials: "same-origin" });
  } catch {
    return; // the next search says that the server is gone
  }
  if (answer.status === 204) {
    show();
    return;
  }
  if (!answer.ok) return;
  const box = document.createElement("template");
  box.innerHTML = await answer.text();
  place.replaceChildren(box.content);
  follow();
}

form.addEventListener("input", (event) => {
  clearTimeout(waiting);
  waiting = setTimeout(show, event.target.type === "search" || event.target.type === "text" ? 180 : 0);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(waiting);
  show();
});
form.querySelector("button").hidden = true;

/** Which sessions are chosen: the buttons for them show when some are. */
function prepare() {
  for (const list of results.querySelectorAll("[data-chosen]")) {
    const boxes = [...list.querySelectorAll("input[name=s]")];
    const all = list.querySelector("[data-all]");
    const bar = list.querySelector("[data-for-chosen]");
    if (!all || !bar) continue;
    const count = () => {
      const chosen = boxes.filter((each) => each.checked).length;
      bar.hidden = chosen === 0;
      all.checked = chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
      bar.querySelector("[data-how-many]").textContent =
        chosen === 1 ? "1 session chosen:" : `${chosen} sessions chosen:`;
    };
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of boxes) box.checked = all.checked;
      count();
    });
    list.addEventListener("change", count);
    count();
  }
}
prepare();
follow();

// j and k walk through the list, as in a mail program.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) return;
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const links = [...results.querySelectorAll("th.title a, .hit-head a")];
  const at = links.indexOf(document.activeElement);
  const next = links[at === -1 ? 0 : Math.max(0, Math.min(links.length - 1, at + step))];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});
