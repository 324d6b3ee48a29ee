// A choice that is sent as soon as it is made.
for (const field of document.querySelectorAll("[data-send]")) {
  field.addEventListener("change", () => field.form.requestSubmit());
}
