/** Lines with escape sequences as pieces with a look: colours and weights are kept, everything else is left out. */

export interface Look {
  fg: string | null;
  bg: string | null;
  isBold: boolean;
  isDim: boolean;
  isItalic: boolean;
  isUnderlined: boolean;
  isInverse: boolean;
}

export interface Piece {
  text: string;
  look: Look;
}

export const PLAIN: Look = { fg: null, bg: null, isBold: false, isDim: false, isItalic: false, isUnderlined: false, isInverse: false };

// CSI sequences, OSC sequences (titles, links) up to their end, and the short ones.
// eslint-disable-next-line no-control-regex
const ESCAPE = /\x1b(?:\[([0-9;:]*)([@-~])|\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

/** A line, and the look that the next one begins with. */
export function parseLine(line: string, before: Look): [Piece[], Look] {
  // A progress bar overwrites itself: the last state is shown.
  const shown = line.includes("\r") ? (line.replace(/\r+$/, "").split("\r").at(-1) ?? "") : line;
  const pieces: Piece[] = [];
  let look = before;
  let from = 0;
  const push = (to: number) => {
    if (to > from) pieces.push({ text: shown.slice(from, to), look });
  };
  for (const found of shown.matchAll(ESCAPE)) {
    push(found.index);
    from = found.index + found[0].length;
    if (found[2] === "m") look = withCodes(look, found[1] ?? "");
  }
  push(shown.length);
  return [pieces, look];
}

export function plainText(line: string): string {
  return parseLine(line, PLAIN)[0]
    .map((piece) => piece.text)
    .join("");
}

function withCodes(look: Look, text: string): Look {
  const codes = text.split(/[;:]/).map((part) => Number(part || 0));
  let next = { ...look };
  for (let index = 0; index < codes.length; index++) {
    const code = codes[index] ?? 0;
    if (code === 38 || code === 48) {
      const [color, used] = extended(codes, index + 1);
      if (color) next[code === 38 ? "fg" : "bg"] = color;
      index += used;
    } else next = withCode(next, code);
  }
  return next;
}

function withCode(look: Look, code: number): Look {
  if (code === 0) return PLAIN;
  if (code === 1) return { ...look, isBold: true };
  if (code === 2) return { ...look, isDim: true };
  if (code === 3) return { ...look, isItalic: true };
  if (code === 4) return { ...look, isUnderlined: true };
  if (code === 7) return { ...look, isInverse: true };
  if (code === 22) return { ...look, isBold: false, isDim: false };
  if (code === 23) return { ...look, isItalic: false };
  if (code === 24) return { ...look, isUnderlined: false };
  if (code === 27) return { ...look, isInverse: false };
  if (code === 39) return { ...look, fg: null };
  if (code === 49) return { ...look, bg: null };
  if (code >= 30 && code <= 37) return { ...look, fg: String(code - 30) };
  if (code >= 40 && code <= 47) return { ...look, bg: String(code - 40) };
  if (code >= 90 && code <= 97) return { ...look, fg: String(code - 82) };
  if (code >= 100 && code <= 107) return { ...look, bg: String(code - 92) };
  return look;
}

/** `5;n` or `2;r;g;b` behind a 38 or 48: the colour, and how many codes it took. */
function extended(codes: number[], at: number): [string | null, number] {
  if (codes[at] === 5) return [indexed(codes[at + 1] ?? 0), 2];
  if (codes[at] !== 2) return [null, 0];
  const [red = 0, green = 0, blue = 0] = codes.slice(at + 1, at + 4).map((value) => Math.min(255, value));
  return [`rgb(${red} ${green} ${blue})`, 4];
}

function indexed(number: number): string | null {
  if (number > 255) return null;
  if (number < 16) return String(number);
  if (number >= 232) {
    const grey = 8 + (number - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const level = (value: number) => (value ? 55 + value * 40 : 0);
  const cube = number - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}
