"use strict";
// Tabs: arrow keys, Home and End move between them, as in the pattern of the ARIA Authoring Practices.
for (const list of document.querySelectorAll('[role="tablist"]')) {
  const tabs = [...list.querySelectorAll('[role="tab"]')];
  const show = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
  };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => show(tab, false));
    tab.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(tabs[(moves[event.key] + tabs.length) % tabs.length], true);
    });
  });
  if (tabs.length) show(tabs[0], false);
}

// Tooltips: of marks under the pointer; with the keyboard, arrow keys move from mark to mark of a focused picture.
const tip = document.getElementById("tip");
const place = (x, y) => {
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(4, x + 12), window.innerWidth - box.width - 4);
  const top = y + 16 + box.height > window.innerHeight ? y - box.height - 10 : y + 16;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(4, top))}px)`;
};
const say = (mark, x, y) => {
  tip.textContent = mark.dataset.tip;
  tip.hidden = false;
  place(x, y);
};
const hide = () => { tip.hidden = true; };
for (const region of document.querySelectorAll(".picture")) {
  for (const title of region.querySelectorAll("g > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.parentNode.setAttribute("role", "img");
    title.remove();
  }
  const marks = [...region.querySelectorAll("g.mark")];
  let at = -1;
  const leave = () => {
    if (at >= 0) marks[at].classList.remove("on");
    hide();
  };
  region.addEventListener("pointermove", (event) => {
    const mark = event.target.closest("g[data-tip]");
    if (mark) say(mark, event.clientX, event.clientY);
    else hide();
  });
  region.addEventListener("pointerdown", (event) => {
    const mark = event.target.closest("g[data-tip]");
    if (mark) say(mark, event.clientX, event.clientY);
  });
  region.addEventListener("pointerleave", hide);
  region.addEventListener("blur", leave);
  region.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { leave(); at = -1; return; }
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (!(event.key in moves) || !marks.length) return;
    event.preventDefault();
    leave();
    at = at < 0 ? (moves[event.key] > 0 ? 0 : marks.length - 1) : (at + moves[event.key] + marks.length) % marks.length;
    const mark = marks[at];
    mark.classList.add("on");
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = mark.getBoundingClientRect();
    say(mark, box.left + box.width / 2, box.top + box.height / 2);
  });
}
window.addEventListener("scroll", hide, { passive: true });
