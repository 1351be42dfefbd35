// Compares two texts line by line. Nothing here touches the page.

// Texts with more lines than this are not compared line by line, because that takes time by the product of their lines.
const LINES_MAX = 2_000;

// Returns [{kind: "same" | "added" | "removed", text}] that leads from the older text to the newer one by as few lines
// as possible (a longest common subsequence).
export function differenceOf(older, newer) {
  const left = older.split("\n");
  const right = newer.split("\n");
  if (left.length > LINES_MAX || right.length > LINES_MAX) {
    return [...left.map((text) => ({ kind: "removed", text })), ...right.map((text) => ({ kind: "added", text }))];
  }
  const common = commonLengths(left, right);
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i] === right[j]) {
      lines.push({ kind: "same", text: left[i] });
      i += 1;
      j += 1;
    } else if (j === right.length || (i < left.length && common[i + 1][j] >= common[i][j + 1])) {
      lines.push({ kind: "removed", text: left[i] });
      i += 1;
    } else {
      lines.push({ kind: "added", text: right[j] });
      j += 1;
    }
  }
  return lines;
}

// common[i][j] is how many lines the rest of `left` from i on and the rest of `right` from j on have in common.
function commonLengths(left, right) {
  const common = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      common[i][j] = left[i] === right[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

// Writes the definition of a schema so that two of them can be compared: JSON in one form, other texts as they are.
export function readable(definition) {
  try {
    return JSON.stringify(JSON.parse(definition), null, 2);
  } catch {
    return definition;
  }
}
