"use strict";
// Filter and sort the items, step from one to the next, and say where a number comes from. Without it all is shown.
const $ = (query, node = document) => [...node.querySelectorAll(query)];
const articles = $("article[id]"), first = articles.slice();
const shown = () => $("article[id]").filter((article) => !article.hidden);

function arrange() {
  const filters = $("[data-filter]").filter((select) => select.value);
  for (const article of articles)
    article.hidden = !filters.every((select) => article.dataset[select.dataset.filter].split("|").includes(select.value));
  const by = $("[data-sort]")[0].value, number = (article) => Number(article.dataset[by]);
  const order = first.slice();
  if (by === "title") order.sort((a, b) => a.dataset.title.localeCompare(b.dataset.title));
  else if (by) order.sort((a, b) => number(b) - number(a));
  for (const article of order) {
    article.parentElement.append(article);
    const entry = $(`[data-for="${article.id}"]`)[0];
    entry.hidden = article.hidden;
    entry.parentElement.append(entry);
  }
  $("[data-shown]")[0].textContent = `${shown().length} of ${articles.length} shown`;
}

function step(event) {
  const all = shown(), place = all.indexOf(event.target.closest("article")) + Number(event.target.dataset.step);
  event.target.hash = all[place] ? all[place].id : "contents";
}

function origin(button) {
  const known = JSON.parse(document.getElementById("cells").textContent);
  const item = button.closest("article").id, cell = (known.cells[item] || {})[button.dataset.cell];
  if (!cell) return;
  const runs = cell.runs.map((key) => [key, known.runs[key][0], ...known.machines[known.runs[key][1]]]);
  const distinct = (place) => [...new Set(runs.map((run) => run[place]))].join("; ");
  const told = {
    number: `${button.textContent} (${button.closest("article").dataset.title}; ${button.dataset.cell})`,
    config: cell.config, seeds: runs.map((run) => run[1]).join(", "), processor: distinct(2), packages: distinct(3),
    "run keys": cell.runs.join(" "), "compute it again": known.command.replace("CELL", `${item} / ${button.dataset.cell}`),
  };
  const list = $("#origin dl")[0];
  list.replaceChildren(...Object.entries(told).flatMap(([name, text]) => {
    const [term, value] = ["dt", "dd"].map((tag) => document.createElement(tag));
    term.textContent = name;
    value.textContent = text;
    return [term, value];
  }));
  document.getElementById("origin").showModal();
}

for (const select of $("[data-filter], [data-sort]")) select.addEventListener("change", arrange);
for (const link of $("[data-step]")) link.addEventListener("click", step);
document.addEventListener("click", (event) => {
  const button = event.target.closest("button.cell");
  if (button) origin(button);
});
if (matchMedia("(max-width: 1099px)").matches) $(".entries")[0].open = false;
arrange();
