// What the page does by itself: show the fields that belong to a choice, copy a text, move a slider.
// Without it every field is shown and everything still works.
"use strict";
document.documentElement.classList.add("js");
document.addEventListener("DOMContentLoaded", () => {
  const all = (where, what) => Array.from(where.querySelectorAll(what));

  // Parts that belong to one choice of a group of radio buttons.
  const chooseParts = () => {
    for (const radio of all(document, "input[data-shows]")) {
      for (const part of all(document, `[data-part="${radio.dataset.shows}"]`)) {
        part.hidden = !radio.checked;
      }
    }
  };

  // A card of a column shows what its kind asks for; the predicted column has no card of its own.
  const dressCards = () => {
    const target = document.querySelector("select[data-target]");
    const person = document.querySelector("#person");
    const perPerson = document.querySelector('input[name="unit"][value="person"]');
    for (const card of all(document, "[data-column]")) {
      const kind = card.querySelector("select[data-kind]").value;
      const know = card.querySelector('input[value="know"]').checked;
      for (const part of all(card, "[data-for]")) {
        const wanted = part.dataset.for.split(" ").includes(kind);
        part.hidden = !wanted || ("known" in part.dataset && !know);
      }
      const identifies = perPerson?.checked && person.value === card.dataset.column;
      card.hidden = (target && target.value === card.dataset.column) || Boolean(identifies);
    }
  };

  const dress = () => { chooseParts(); dressCards(); };
  document.addEventListener("change", dress);

  // The slider is logarithmic: -20 .. 20 is 0.1 .. 10.
  const slide = document.querySelector("input[data-slide]");
  if (slide) {
    const field = document.getElementById(slide.dataset.slide);
    const follow = () => {
      const value = Number(field.value.replace(",", "."));
      if (value > 0) slide.value = String(Math.round(20 * Math.log10(value)));
    };
    slide.addEventListener("input", () => {
      field.value = String(Number(Math.pow(10, slide.value / 20).toPrecision(2)));
    });
    field.addEventListener("input", follow);
    follow();
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const code = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {  // a browser that does not let pages copy: mark it, for Ctrl-C
      getSelection().selectAllChildren(code);
      button.textContent = "Marked: press Ctrl-C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  });

  dress();
  document.documentElement.classList.add("dressed");
  const error = document.getElementById("error");
  if (error) error.focus();
});
