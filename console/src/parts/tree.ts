// The paths of a story as a tree.

/** Branch is a passage, or several that follow each other without a choice. `row` is the path that ends there. */
export interface Branch<R> {
  names: string[];
  row: R | undefined;
  children: Branch<R>[];
}

interface Node<R> {
  row: R | undefined;
  children: Map<string, Node<R>>;
}

const inOrder = new Intl.Collator("en", { numeric: true });

/** treeOf arranges rows by their routes. Passages with the same beginning share it; passages without a path or a choice of their own are joined with the next one. */
export function treeOf<R extends { route: readonly string[] }>(rows: readonly R[]): Branch<R>[] {
  const root: Node<R> = { row: undefined, children: new Map() };
  for (const row of rows) {
    let at = root;
    for (const name of row.route) {
      let next = at.children.get(name);
      if (!next) at.children.set(name, (next = { row: undefined, children: new Map() }));
      at = next;
    }
    at.row = row;
  }
  return branches(root);
}

// A route can be as deep as a request is large, so nothing here calls itself.
function branches<R>(root: Node<R>): Branch<R>[] {
  const top: Branch<R>[] = [];
  const open: { node: Node<R>; into: Branch<R>[] }[] = [{ node: root, into: top }];
  for (let one = open.pop(); one; one = open.pop()) {
    for (const [first, child] of [...one.node.children].sort((a, b) => inOrder.compare(a[0], b[0]))) {
      const names = [first];
      let end = child;
      while (end.row === undefined && end.children.size === 1) {
        const [name, only] = [...end.children][0] as [string, Node<R>];
        names.push(name);
        end = only;
      }
      const branch: Branch<R> = { names, row: end.row, children: [] };
      one.into.push(branch);
      open.push({ node: end, into: branch.children });
    }
  }
  return top;
}

/** TreeRow is a branch at its depth, in the order in which a person reads the tree. */
export interface TreeRow<R> {
  depth: number;
  names: string[];
  row: R | undefined;
}

export function treeRows<R>(tree: readonly Branch<R>[]): TreeRow<R>[] {
  const list: TreeRow<R>[] = [];
  const open = tree.map((branch) => ({ branch, depth: 0 })).reverse();
  for (let one = open.pop(); one; one = open.pop()) {
    list.push({ depth: one.depth, names: one.branch.names, row: one.branch.row });
    for (const child of [...one.branch.children].reverse()) open.push({ branch: child, depth: one.depth + 1 });
  }
  return list;
}

/** Segment is a part of a stacked bar: where it begins and how long it is, as shares of the whole drawing. */
export interface Segment {
  name: string;
  value: number;
  from: number;
  share: number;
}

/** segments stacks values beside each other. `most` is the sum that fills the drawing. Values of 0 are left out. */
export function segments(values: readonly { name: string; value: number }[], most: number): Segment[] {
  const list: Segment[] = [];
  let from = 0;
  for (const { name, value } of values) {
    if (value <= 0) continue;
    const share = value / Math.max(1, most);
    list.push({ name, value, from, share });
    from += share;
  }
  return list;
}
