import assert from "node:assert/strict";
import { test } from "node:test";
import { Messages } from "./follow.ts";

test("server-sent events arrive in any pieces", () => {
  const stream = ": alive\n\nid: 1\ndata: {\"a\":1}\n\nevent: frozen\ndata: {}\n\nid: 2\ndata: x\ndata: y\n\n";
  const want = [{ event: "", data: '{"a":1}' }, { event: "frozen", data: "{}" }, { event: "", data: "x\ny" }];
  for (let size = 1; size <= stream.length; size++) {
    const messages = new Messages(), got = [];
    for (let at = 0; at < stream.length; at += size) got.push(...messages.push(stream.slice(at, at + size)));
    assert.deepEqual(got, want, `pieces of ${size}`);
  }
});
