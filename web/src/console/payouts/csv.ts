/** The cells of a CSV file (RFC 4180). The separator is the one of the first line: a comma, a semicolon or a tab. */
export function parseCsv(text: string): string[][] {
  const content = text.replace(/^\uFEFF/, "");
  const head = content.slice(0, content.search(/[\r\n]|$/));
  const separator = [";", "\t"].find((character) => head.split(character).length > head.split(",").length) ?? ",";
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < content.length; at++) {
    const character = content[at] ?? "";
    if (quoted) {
      if (character !== '"') cell += character;
      else if (content[at + 1] === '"') cell += content[at++];
      else quoted = false;
    } else if (character === '"' && cell === "") {
      quoted = true;
    } else if (character === separator) {
      row.push(cell);
      cell = "";
    } else if (character === "\n") {
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else if (character !== "\r") {
      cell += character;
    }
  }
  if (cell !== "" || row.length > 0) rows.push([...row, cell]);
  return rows;
}

/** A cell of a CSV file. A text that a spreadsheet could take for a formula begins with an apostrophe. */
export function csvCell(value: string | number): string {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
