/** Returns a quantile of a list of times: the smallest time that at least this share of them does not exceed. */
export function quantile(times, share) {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}
