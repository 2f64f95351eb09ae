import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut } from "./geometry.ts";

test("every node is in the picture, parents are above and between their children", () => {
  for (let depth = 0; depth <= 53; depth++) {
    for (const pattern of [() => true, () => false, (i: number) => i % 2 === 0, (i: number) => (depth * 7 + i * 13) % 5 < 2]) {
      const left = Array.from({ length: depth }, (_, i) => pattern(i));
      const { width, height, nodes, siblings } = layOut(left, 240);
      assert.equal(nodes.length, depth + 1);
      assert.equal(siblings.length, depth);
      for (const { x, y } of [...nodes, ...siblings]) assert.ok(x >= 0 && x <= width && y >= 0 && y <= height, `${x},${y} at depth ${depth}`);
      siblings.forEach((sibling, i) => {
        const [node, parent] = [nodes[i], nodes[i + 1]];
        assert.ok(node && parent && parent.y < node.y && sibling.y === node.y);
        assert.equal(sibling.x < node.x, left[i]);
        assert.ok(Math.abs((sibling.x + node.x) / 2 - parent.x) < 1e-9);
      });
    }
  }
});
