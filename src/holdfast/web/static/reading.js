// A long conversation comes in windows: the next one is put below when its end comes into sight.
import { complain, tell } from "./page.js";

const conversation = document.querySelector("[data-conversation]");

async function more(link) {
  if (link.dataset.asked) return;
  link.dataset.asked = "yes";
  link.setAttribute("aria-busy", "true");
  const query = new URL(link.href).search;
  try {
    const answer = await fetch(conversation.dataset.conversation + query, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(String(answer.status));
    const box = document.createElement("template");
    box.innerHTML = await answer.text();
    const before = link.dataset.more === "before";
    // Of the window that comes, the way back leads to what is here already.
    box.content.querySelector(`[data-more=${before ? "after" : "before"}]`)?.parentElement.remove();
    const height = document.documentElement.scrollHeight;
    link.parentElement.replaceWith(box.content);
    if (before) scrollBy(0, document.documentElement.scrollHeight - height);
    watch();
    tell(before ? "Earlier messages." : "Later messages.");
  } catch (error) {
    delete link.dataset.asked;
    link.removeAttribute("aria-busy");
    complain(link.parentElement, error);
  }
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const each of entries) if (each.isIntersecting) more(each.target);
  },
  { rootMargin: "600px" },
);

function watch() {
  for (const link of conversation.querySelectorAll("[data-more]")) {
    if (link.dataset.more === "after") seen.observe(link);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      more(link);
    });
  }
}
watch();

const here = conversation.querySelector("[data-here]");
if (here) {
  here.scrollIntoView({ block: "center" });
  for (const each of here.querySelectorAll("details")) each.open = true;
}

const unfold = document.querySelector("[data-unfold]");
if (unfold) {
  unfold.hidden = conversation.querySelector("details") === null;
  unfold.addEventListener("click", () => {
    const all = [...conversation.querySelectorAll("details")];
    const open = all.some((each) => !each.open);
    for (const each of all) each.open = open;
    unfold.textContent = open ? "Fold all" : "Unfold all";
  });
}

// A menu closes when somebody goes on elsewhere, or presses Escape.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
