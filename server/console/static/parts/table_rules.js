// How rows are sorted and searched. Nothing here touches the page.

const byText = new Intl.Collator("en", { numeric: true });

// Returns the rows in the order that `sort` ([key, direction] or null) asks for. Rows without a value come last in both
// directions, and equal rows keep their order.
export function sortedRows(rows, columns, sort) {
  const column = sort && columns.find((each) => each.key === sort[0]);
  if (!column) return rows;
  const sign = sort[1] === "ascending" ? 1 : -1;
  const valued = rows.map((row) => [column.value(row), row]);
  valued.sort(([left], [right]) => {
    if (isMissing(left) || isMissing(right)) return Number(isMissing(left)) - Number(isMissing(right));
    return sign * compared(left, right);
  });
  return valued.map(([, row]) => row);
}

function isMissing(value) {
  return value === undefined || value === null || Number.isNaN(value);
}

function compared(left, right) {
  if (typeof left === "string" || typeof right === "string") return byText.compare(String(left), String(right));
  return left - right;
}

// Returns the rows whose text holds every word of the search, in any order and any case.
export function foundRows(rows, search, textOf) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = textOf(row).toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
