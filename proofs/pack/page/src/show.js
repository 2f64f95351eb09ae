// The page that shows a pack. It shows everything that came with the pack as text, never as markup.

import { systemPromptForm, outputForm, textHash, words } from "../../../../clients/typescript/src/hashes/texts.js";
import { sha256, toHex, utf8Text, wtf8 } from "../../../../clients/typescript/src/verify/bytes.js";
import { VerificationError } from "../../../../clients/typescript/src/verify/errors.js";
import { canonical, compact, parseJSON, quoted, spaced } from "../../../../clients/typescript/src/verify/json.js";
import { parseVerifierKey } from "../../../../clients/typescript/src/verify/note.js";
import { nodesRoot } from "../../../../clients/typescript/src/hashes/records.js";
import { Verification, fails, kinds, unchecked, worst } from "./verify.js";

// Exported so that tests in a browser can compare the rules of this page with those of CPython.
export { VerificationError, canonical, compact, kinds, nodesRoot, outputForm, parseJSON, sha256, spaced, systemPromptForm, textHash, toHex, words, wtf8 };

// element returns a new element that has this class ("" for none) and these children: nodes, texts, or null, which
// is left out.
function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null));
  return made;
}

// foreign returns an element for text that came with the pack. The text cannot change the writing direction of the
// text around it.
function foreign(text, className) {
  return element("bdi", className, String(text));
}

function byId(id) {
  return document.getElementById(id);
}

const marks = {
  holds: ["✓", "holds: "],
  fails: ["✗", "does not hold: "],
  unchecked: ["?", "not checked: "],
};

// mark returns the sign of a verdict, with words for screen readers.
function mark(verdict) {
  const [sign, words] = marks[verdict], made = element("span", "mark", sign);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", words);
  return made;
}

function stepsOf(steps) {
  const list = element("ul", "steps");
  for (const step of steps) {
    list.append(element("li", step.verdict, mark(step.verdict), element("span", "", element("strong", "", foreign(step.name), ": "), foreign(step.says))));
  }
  return list;
}

function describe(list, rows) {
  list.replaceChildren(...rows.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", foreign(value))]));
  return list;
}

function table(label, heads, rows) {
  const head = element("tr", "", ...heads.map((text) => {
    const cell = element("th", "", text);
    cell.scope = "col";
    return cell;
  }));
  const body = rows.map((cells) => element("tr", "", ...cells.map((cell) => element("td", "", cell))));
  const made = element("table", "", element("thead", "", head), element("tbody", "", ...body));
  made.setAttribute("aria-label", label);
  return made;
}

const origins = {
  match: "computed by the ledger, and claimed by the writer", mismatch: "computed by the ledger; the writer claimed another", computed: "computed by the ledger",
  claimed: "claimed by the writer",
};

// indented returns a JSON value as indented text.
function indented(value, indent) {
  const deeper = indent + "  ", between = ",\n" + deeper;
  if (Array.isArray(value) && value.length > 0) return "[\n" + deeper + value.map((v) => indented(v, deeper)).join(between) + "\n" + indent + "]";
  if (!(value instanceof Map) || value.size === 0) return canonical(value, spaced);
  return "{\n" + deeper + [...value].map(([name, v]) => quoted(name) + ": " + indented(v, deeper)).join(between) + "\n" + indent + "}";
}

// plain returns a member of the event as text for a table. Strings have no quotes.
function plain(value) {
  return typeof value === "string" ? value : indented(value, "");
}

function hashTable(record) {
  const rows = record.hashes.map((hash) => {
    const by = hash.recomputed ? "computed here" : origins[hash.result] ?? "no check of its own";
    return [foreign(hashLabel(hash.name, record.event)), foreign(hash.stated ?? "none", "hash"), hash.stated === null ? "" : (!hash.recomputed ? "" : hash.holds ? "✓ " : "✗ ") + by];
  });
  return rows.length ? [element("h3", "", "Hashes"), table("Hashes", ["of", "hash", "known from"], rows)] : [];
}

// claimTable returns a table of the writer's claims that did not match. Such a claim is not a fault of the log.
function claimTable(record) {
  const rows = record.refuted.map((claim) => [foreign(claim.name), foreign(claim.claimed ?? "none", "hash"), foreign(claim.computed ?? "none", "hash")]);
  return rows.length ? [element("h3", "", "Claims of the writer that did not hold"), table("Claims that did not hold", ["of", "claimed", "computed by the ledger"], rows)] : [];
}

// hashLabel returns a description of what a hash covers.
function hashLabel(name, event) {
  const [list, i] = name.split("/"), members = event.get("record");
  if (list === "nodes") return "stage " + members.get("nodes")[i].get("stage");
  if (list === "citations") return "chunk of " + members.get("citations")[i].get("source_id");
  return name;
}

function contentOf(record) {
  return record.pieces.flatMap((piece) => {
    const title = element("h3", "", "Content: ", foreign(piece.name), " (" + piece.size + " bytes)");
    if (piece.bytes) {
      const text = utf8Text(piece.bytes), shown = element("pre", "", text ?? toHex(piece.bytes));
      shown.dir = "auto";
      shown.tabIndex = 0;
      return [title, text === null ? element("p", "", "Not valid UTF-8; its bytes in hexadecimal:") : null, shown];
    }
    const why = piece.erased ? "Erased. Its digest stays in the event: " : piece.changed ? "Changed, and therefore not shown. The event names the digest " : "Not in this file. Its digest is in the event: ";
    return [title, element("p", "", why, foreign(piece.digest, "hash"))];
  }).filter((part) => part !== null);
}

// shownElsewhere holds the members of a record that are not shown in the table of its members.
const shownElsewhere = new Set(["content", "hashes", "nodes", "citations"]);

function eventOf(record) {
  const { event } = record, members = event.get("record");
  const rows = [["recorded", event.get("time")], ["by", event.get("actor")]];
  for (const [name, value] of members) {
    if (!shownElsewhere.has(name)) rows.push([foreign(name), plain(value)]);
  }
  const whole = element("details", "", element("summary", "", "The event, word for word"), element("pre", "", indented(event, "")));
  return [element("h3", "", "What the event says"), describe(element("dl"), rows), ...hashTable(record), ...claimTable(record), ...contentOf(record), whole];
}

function showRecord(record) {
  const verdict = worst(record.steps), { event } = record;
  const kind = event ? kinds[event.get("kind")] ?? event.get("kind") : "it could not be read";
  const run = event?.get("record").get("run_id");
  const title = element("summary", "", mark(verdict), " ", element("strong", "", "Event " + record.record.seq), ": ", foreign(kind), element("span", "quiet",
    event ? ", recorded " + event.get("time") : "", run ? ", run " : "", run ? foreign(run) : "", refuted(record.refuted.length)));
  const made = element("details", "record " + verdict, title, stepsOf(record.steps));
  made.dataset.seq = record.record.seq;
  // The details are built when the reader opens the record.
  made.addEventListener("toggle", () => fill(made, record));
  if (verdict === fails) made.open = true;
  return made;
}

function refuted(n) {
  return n === 0 ? "" : n === 1 ? "; one claim of the writer did not hold" : "; " + n + " claims of the writer did not hold";
}

function fill(shown, record) {
  if (shown.dataset.filled || !record.event) return;
  shown.dataset.filled = "yes";
  shown.append(...eventOf(record));
}

const contentSays = {
  included: "with their content as far as it is not erased", "left out": "without their content, which whoever made the file left out",
  "no right": "without their content, which whoever made the file may not read",
};

function showVerdict(done) {
  const n = done.records.length, all = n === 1 ? "The record" : "All " + n + " records";
  const first = done.steps.find((s) => s.verdict === fails), bad = done.records.filter((record) => worst(record.steps) === fails);
  const words = {
    verified: ["✓ Verified", all + " in this file " + (n === 1 ? "is" : "are") + " in the log that the key you gave signs, unchanged."],
    consistent: ["Consistent, but whose?", all + " in this file agree" + (n === 1 ? "s" : "") + " with the key that the file brings along. To know that it is the ledger’s, compare it with one that you trust: paste that below."],
    unchecked: ["Not checked", "This browser cannot check all of it: " + (done.steps.find((s) => s.verdict === unchecked)?.says ?? "")],
    failed: ["✗ Not verified", first ? first.name + ": " + first.says : bad.length + " of " + n + " records do not hold: event " + bad.map((r) => r.record.seq).slice(0, 10).join(", ") + "."],
  }[done.verdict()];
  document.documentElement.className = done.verdict();
  document.documentElement.dataset.verdict = done.verdict();
  byId("verdict-title").textContent = words[0];
  byId("verdict-says").replaceChildren(foreign(words[1]));
}

function showAll(done) {
  const { pack, checkpoint, signer } = done;
  byId("whole").replaceChildren(...stepsOf(done.steps).children);
  if (checkpoint) {
    describe(byId("log"), [["log", checkpoint.origin], ["events in it", String(checkpoint.size)], ["signed with", signer?.text ?? ""],
      ["this file’s key", signer && !done.key ? "" : (pack.verifier_keys ?? []).join(" ")]]);
  }
  if (done.records.length > 0) {
    document.title = "Audit pack of " + pack.ledger;
    byId("about").replaceChildren("Ledger ", foreign(pack.ledger), ", file made ", foreign(pack.exported), ", " + done.records.length + " records.");
    byId("records-says").textContent = "In the order of the log, " + (contentSays[pack.content] ?? "") + ".";
  }
  byId("records").replaceChildren(...done.records.map(showRecord));
  showVerdict(done);
}

// openAll fills and opens every record, so that a printout shows all of them.
export function openAll() {
  for (const shown of document.querySelectorAll("details.record")) shown.dispatchEvent(new Event("toggle"));
  for (const shown of document.querySelectorAll("details")) shown.open = true;
}

// encoded returns the pack as JSON, in the spelling of the program that writes packs.
function encoded(pack) {
  return JSON.stringify(pack).replace(/[<>&\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

let latest = 0; // number of the check that began last; only its result is shown

// check verifies the pack and shows the result. It uses the reader's key, or the keys in the file if key is "".
export async function check(key) {
  const turn = ++latest;
  const text = byId("pack").textContent;
  let pack = null;
  try {
    pack = JSON.parse(text);
  } catch {
    // Verification reports that the file is not complete.
  }
  const done = new Verification(pack ?? {}, key);
  // Other programs could read another spelling differently, for example a member that occurs twice.
  if (pack && encoded(pack) !== text) done.steps.push({ name: "The data", verdict: fails, says: "it is not in its canonical form" });
  if (!globalThis.crypto?.subtle) {
    done.steps.push({ name: "The browser", verdict: unchecked, says: "it offers no cryptography here; open the file from your disk, or over https" });
  } else {
    await done.run();
  }
  if (turn === latest) showAll(done);
  return done.verdict();
}

byId("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const key = byId("key").value.trim();
  byId("key-says").textContent = "";
  try {
    if (key) await parseVerifierKey(key);
    await check(key);
  } catch (error) {
    byId("key-says").textContent = error.message;
  }
});
addEventListener("beforeprint", openAll);
check("");
