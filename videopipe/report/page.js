// Tables sort by a click on a column and filter by what is typed above them.
const value = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
};
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table"), column = head.cellIndex;
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => (ascending ? 1 : -1) * compare(value(a, column), value(b, column)));
    table.tBodies[0].append(...rows);
  });
}
for (const input of document.querySelectorAll(".caption input")) {
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of input.closest(".table").querySelectorAll("tbody tr"))
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
