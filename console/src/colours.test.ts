import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const styles = readFileSync("src/base.css", "utf8");

/** Colours of the style sheet by name: light, then dark. */
const colours = new Map([...styles.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map((found) => [found[1], [found[2], found[3]]]));

/** luminance is the relative luminance of WCAG 2. */
function luminance(hex: string): number {
  const linear = [1, 3, 5].map((at) => {
    const part = parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0);
}

function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function assertContrast(name: string, on: string, least: number): void {
  for (const scheme of [0, 1]) {
    const a = colours.get(name)?.[scheme], b = colours.get(on)?.[scheme];
    assert.ok(a !== undefined && b !== undefined, `${name} and ${on} have colours`);
    const found = contrast(a, b);
    assert.ok(found >= least, `${name} on ${on}, ${scheme === 0 ? "light" : "dark"}: ${found.toFixed(2)} is less than ${least}`);
  }
}

test("texts and causes can be read on every paper", () => {
  const causes = [...colours.keys()].filter((name): name is string => name?.startsWith("cause-") === true);
  assert.equal(causes.length, 17);
  for (const name of ["ink", "quiet", "link", "accent", "good", "bad", ...causes]) for (const on of ["paper", "raised"]) assertContrast(name, on, 4.5);
  for (const name of ["ink", "quiet", "wait"]) assertContrast(name, "wait-paper", 4.5);
  for (const name of ["deleted", "inserted"]) assertContrast("ink", name, 4.5);
});

test("the borders of fields can be seen", () => {
  for (const on of ["paper", "raised"]) assertContrast("strong-line", on, 3);
});
