// Where the nodes of a path are drawn: the leaf at the bottom, the root at the top, each sibling
// on its own side.

export interface Point {
  x: number;
  y: number;
}

export interface Drawn {
  width: number; // of the tree
  height: number;
  nodes: Point[]; // from the leaf to the root
  siblings: Point[]; // the sibling of nodes[i]
}

const rowHeight = 34;
const margin = 14;

/** layOut places a path in a picture of this width. left says of each sibling, from the leaf upwards, whether it is on the left. */
export function layOut(left: readonly boolean[], width: number): Drawn {
  const inner = width - 2 * margin;
  // A parent is in the middle between its node and the sibling. The walk is as wide as its
  // largest excursion, and is scaled to fit.
  let at = 0;
  const walk = [0];
  for (const side of left) walk.push(at += side ? -1 : 1);
  const beside = walk.slice(0, -1).map((x, i) => x + (left[i] ? -2 : 2));
  const low = Math.min(...walk, ...beside), high = Math.max(...walk, ...beside);
  const unit = Math.min(22, inner / Math.max(1, high - low));
  const start = margin + (inner - unit * (high - low)) / 2;
  const y = (i: number) => margin + (left.length - i) * rowHeight;
  return {
    width, height: 2 * margin + left.length * rowHeight,
    nodes: walk.map((x, i) => ({ x: start + (x - low) * unit, y: y(i) })),
    siblings: beside.map((x, i) => ({ x: start + (x - low) * unit, y: y(i) })),
  };
}
