// A run that goes on: its progress, until its report is there.
import { tell } from "./page.js";

const place = document.querySelector("[data-job]");
let last = "";

async function ask() {
  let answer;
  try {
    answer = await fetch(place.dataset.job, { credentials: "same-origin" });
  } catch {
    tell("The page has lost its server. What was begun goes on or is settled later.");
    return;
  }
  if (!answer.ok || answer.status === 204) {
    location.reload();
    return;
  }
  const box = document.createElement("template");
  box.innerHTML = await answer.text();
  place.replaceChildren(box.content);
  const said = place.querySelector("p")?.textContent ?? "";
  if (said.split(":")[0] !== last.split(":")[0]) tell(said);
  last = said;
  setTimeout(ask, 400);
}
setTimeout(ask, 400);
