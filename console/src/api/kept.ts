// What this browser keeps. Credentials are in the storage of the tab, which ends with it. The
// colour scheme and the pinned keys of ledgers are in the storage of the browser.
//
// A browser can refuse storage. Then a value lasts as long as the page.

const memory = new Map<string, string>();

function storage(lasting: boolean): Storage | undefined {
  try {
    return lasting ? localStorage : sessionStorage;
  } catch {
    return undefined;
  }
}

function read(lasting: boolean, name: string): string | null {
  try {
    const kept = storage(lasting)?.getItem(name);
    if (kept !== null && kept !== undefined) return kept;
  } catch {
    // The value may be in memory.
  }
  return memory.get(name) ?? null;
}

function write(lasting: boolean, name: string, value: string | null): void {
  if (value === null) memory.delete(name);
  else memory.set(name, value);
  try {
    const kept = storage(lasting);
    if (value === null) kept?.removeItem(name);
    else kept?.setItem(name, value);
  } catch {
    // The value is in memory.
  }
}

/** forTab keeps values until the tab is closed. */
export const forTab = {
  get: (name: string) => read(false, `colophon.${name}`),
  set: (name: string, value: string | null) => write(false, `colophon.${name}`, value),
};

/** forBrowser keeps values until the person deletes them. */
export const forBrowser = {
  get: (name: string) => read(true, `colophon.${name}`),
  set: (name: string, value: string | null) => write(true, `colophon.${name}`, value),
};
