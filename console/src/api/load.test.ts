import assert from "node:assert/strict";
import { test } from "node:test";
import { lanes } from "./load.ts";

test("no more tasks run at once than there are lanes", async () => {
  const lane = lanes(3);
  let running = 0, most = 0;
  const task = async (n: number) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running--;
    if (n === 4) throw new Error("one fails");
    return n;
  };
  const done = await Promise.allSettled(Array.from({ length: 12 }, (_, n) => lane(() => task(n))));
  assert.equal(most, 3);
  assert.equal(done.filter((one) => one.status === "fulfilled").length, 11);
});
