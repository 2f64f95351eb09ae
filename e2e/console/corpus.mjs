// Generates the records of a ledger of any size, for measurements. They are of all kinds, and repeat
// as those of a service do: inputs run several times with different models, prompts, and temperatures;
// questions have several answers; passages of sources change from time to time; stories have builds.
import { createHash } from "node:crypto";

const words = ("the a of and to in that it was on lamp keeper sea light stair oil boat winter letter night harbour glass brass " +
  "storm gull rock tower ledger answer question reason window morning signal horn fog tide rope hand watch page name list map road house " +
  "garden bread river stone field market train clock paper ink voice song story child friend doctor teacher engine wheel bridge forest").split(" ");

/** Returns a generator of numbers in [0, 1) (mulberry32). The same seeds give the same numbers. */
function random(...seeds) {
  let state = 0x9e3779b9;
  for (const seed of seeds) state = Math.imul(state ^ seed, 0x85ebca6b) ^ (state >>> 13);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function text(count, ...seeds) {
  const next = random(...seeds);
  return Array.from({ length: count }, () => words[Math.floor(next() * words.length)]).join(" ");
}

const whole = (next, below) => Math.floor(next() * below);
const digest = (value) => createHash("sha256").update(value).digest("hex");

const models = ["wren-1", "wren-2", "wren-2-small", "tern-7b", "tern-13b", "heron"];
const prompts = Array.from({ length: 30 }, (_, i) => `You are assistant ${i + 1}. ${text(30, 1, i)}.`);

/** Returns the number of a thing that n uses, often a popular one. About every `each` uses, there is a new thing. */
function one(next, n, each) {
  const soFar = Math.floor(n / each) + 1, drawn = next();
  return drawn < 0.01 ? whole(next, Math.min(20, soFar)) : drawn < 0.01 + 1 / each ? soFar - 1 : whole(next, soFar);
}

function generation(n) {
  const next = random(2, n), input = one(next, n, 5);
  // Two models and two prompts are so common that 10,000 records have a thousand pairs that differ only in them.
  const common = (count) => whole(next, next() < 0.85 ? 2 : count);
  const model = common(models.length), prompt = common(prompts.length), temperature = next() < 0.8 ? 0.7 : 0.2;
  const chance = next() < 0.1 ? n : 0; // some outputs change by chance
  return { kind: "ipc_record", record: {
    run_id: `run/${n}`, payload: { instruction: `Question ${input}: ${text(12, 3, input)}?`, topic: words[input % words.length] }, system_prompt: prompts[prompt], output: `${text(40 + (input + 7 * model) % 40, 4, input, model, prompt, temperature * 10, chance)}.`,
    model: models[model], temperature, max_tokens: 400, ...(next() < 0.02 ? {} : { seed: 7 }), labels: { config: `config-${prompt % 12}`, step: input % 3 === 0 ? "review" : "draft" },
  } };
}

/** Returns a passage of a source, as answer n cites it. The text changes every 500 answers. Two sources share their first passage. */
function passage(source, place, n) {
  if (place === 0) source -= source % 2;
  return `${text(20, 5, source, place, Math.floor((n + source * 37) / 500))}.`;
}

const places = 8; // number of passages in a source

/** Returns the passages that answer n cites. */
function basis(n) {
  const next = random(6, n), sources = 50 + Math.floor(n / 50), first = next() < 0.05 ? 0 : whole(next, sources);
  return Array.from({ length: 4 }, (_, i) => {
    const source = i < 2 ? first : whole(next, sources), place = whole(next, places);
    return { source: `handbook/${source}`, place, text: passage(source, place, n), weight: Math.round((0.9 - i * 0.1 - next() * 0.05) * 1000) / 1000 };
  }).filter((cited, i, all) => all.findIndex((other) => other.source === cited.source && other.place === cited.place) === i);
}

const questionOf = (n) => one(random(7, n), n, 3);

function answerRun(n) {
  const next = random(8, n), question = questionOf(n), cited = basis(n), verified = next() < 0.9 ? 1 : 0;
  return { kind: "run_dag", record: {
    run_id: `answer/${n}`, question: `Question ${question}: ${text(12, 9, question)}?`, inputs: {
      context_root: digest(cited.map((part) => part.text).join("\n")), conversation_hash: "4".repeat(64), sources: cited.map((part, i) => ({ document_root: digest(part.text), source_role: "primary_answer_source", score: part.weight, chunk_idx: i })),
      answer_text: `${text(30, 10, question, whole(next, 3))}.`, audit_mode: "STRICT", verifier_method: "quote", n_quotes: 1, n_verified: verified, lookup_path: "miss",
    },
  } };
}

function citations(n) {
  return { kind: "citation_set", record: { run_id: `answer/${n}`, subject: `question/${questionOf(n)}`, citations: basis(n).map((part) => ({ source_id: part.source, section: `Part ${part.place}`, text: part.text, weight: part.weight })) } };
}

const pathsOfStory = 100, builds = 5;

function path(n) {
  const story = Math.floor(n / (pathsOfStory * builds)), build = Math.floor(n / pathsOfStory) % builds, at = n % pathsOfStory;
  const route = ["Start", `Choice ${at % 4}`, `Turn ${Math.floor(at / 4) % 5}`, `End ${at}`];
  return { kind: "path_fingerprint", record: { project: `story-${story}`, build: `build-${build}`, route, content: `${text(50, 11, story, at, random(12, story, at, build)() < 0.1 ? build : 0)}.` } };
}

/** The kinds of every 20 successive records, as keys of `makers`. */
const turn = [..."gggacggggpggggacgggg"];
const makers = { g: generation, a: answerRun, c: citations, p: path };
const each = Object.fromEntries(Object.keys(makers).map((kind) => [kind, turn.filter((other) => other === kind).length]));
const before = turn.map((kind, i) => turn.slice(0, i).filter((other) => other === kind).length);

/** Returns record i. The same i always gives the same record. */
export function record(i) {
  const at = i % turn.length, kind = turn[at];
  return makers[kind](Math.floor(i / turn.length) * each[kind] + before[at]);
}

/** Yields the first `count` records as lines for `colophon import`, in pieces of about 1 MB. */
export function* lines(count) {
  let piece = "";
  for (let i = 0; i < count; i++) {
    piece += `${JSON.stringify({ ...record(i), idempotency_key: `corpus/${i}` })}\n`;
    if (piece.length > 1 << 20 || i === count - 1) {
      yield piece;
      piece = "";
    }
  }
}
