/** A colour, and the colour of the text on it. */
export interface Shade {
  color: string;
  textColor: string;
}

type Rgb = readonly [number, number, number];

/** The backgrounds of pages, and the colour into which an accent colour is mixed if it is hard to see there. */
const pages: Record<"light" | "dark", { background: Rgb; towards: Rgb }> = {
  light: { background: [0xff, 0xff, 0xff], towards: [0, 0, 0] },
  dark: { background: [0x11, 0x11, 0x11], towards: [0xff, 0xff, 0xff] },
};

/** The shade of an accent colour such as #0a7f5a on a page, as the service computes it. Null if the text is no colour. */
export function shadeOf(color: string, page: "light" | "dark"): Shade | null {
  const parsed = parse(color);
  if (!parsed) return null;
  const { background, towards } = pages[page];
  let mixed = parsed;
  for (let percent = 1; contrast(mixed, background) < 3; percent++) {
    mixed = parsed.map((value, i) => Math.floor((value * (100 - percent) + (towards[i] ?? 0) * percent + 50) / 100)) as unknown as Rgb;
  }
  return { color: text(mixed), textColor: contrast(mixed, [0, 0, 0]) > contrast(mixed, [255, 255, 255]) ? "#000000" : "#ffffff" };
}

function parse(color: string): Rgb | null {
  if (!/^#[0-9a-f]{6}$/i.test(color)) return null;
  return [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16)) as unknown as Rgb;
}

function text(color: Rgb): string {
  return `#${color.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** The contrast of two colours (WCAG 2.2), 1 to 21. */
function contrast(a: Rgb, b: Rgb): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: Rgb): number {
  const [red = 0, green = 0, blue = 0] = color.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
