/** stackedSums adds up series from the last to the first, so that the first one is on top. */
export function stackedSums(series: readonly (readonly (number | null)[])[]): number[][] {
  const sums: number[][] = [];
  let below: number[] = [];
  for (const values of [...series].reverse()) {
    below = values.map((value, i) => (value ?? 0) + (below[i] ?? 0));
    sums.unshift(below);
  }
  return sums;
}
