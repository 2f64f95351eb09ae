import assert from "node:assert/strict";
import { test } from "node:test";
import { ago } from "./time.tsx";

test("a moment is so long ago as its largest unit says", () => {
  const now = new Date("2026-01-02T12:00:00Z");
  for (const [at, want] of [["2026-01-02T11:59:58Z", "just now"], ["2026-01-02T11:59:20Z", "40 seconds ago"], ["2026-01-02T11:58:59Z", "1 minute ago"],
    ["2026-01-01T11:00:00Z", "1 day ago"], ["2025-10-31T15:45:34-04:00", "2 months ago"], ["2020-01-01T00:00:00Z", "6 years ago"], ["2027-01-01T00:00:00Z", "just now"]] as const) {
    assert.equal(ago(new Date(at), now), want, at);
  }
});
