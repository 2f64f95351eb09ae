// Verify here: the page fetches the log's tiles, computes everything again, and draws the way from
// the event to the signed root.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { toHex } from "../../../clients/typescript/src/verify/index.js";
import { type Problem, type Schemas } from "../api/client.ts";
import { problemOf } from "../api/load.ts";
import { layOut } from "../verify/geometry.ts";
import { type Alarm, forget, keepWitnessKeys, type Line, type Progress, verifyRecord, witnessKeys } from "../verify/here.ts";
import { count, number } from "../words.ts";
import { save } from "./receipt.tsx";
import { Failed } from "./states.tsx";
import { Raw } from "./text.tsx";

const pace = 70; // milliseconds between two steps of the drawing

/** VerifyHere verifies a record on a click. */
export function VerifyHere({ ledger, row }: { ledger: string; row: Schemas["RecordAnswer"] }) {
  const [progress, setProgress] = useState<Progress>();
  const [problem, setProblem] = useState<Problem>();
  const [turn, setTurn] = useState(0);
  const running = turn > 0 && !problem && !progress?.verdict;
  useEffect(() => {
    if (turn === 0) return;
    const controller = new AbortController();
    setProgress(undefined);
    setProblem(undefined);
    const show = (value: Progress) => {
      if (!controller.signal.aborted) setProgress(value);
    };
    verifyRecord(ledger, row, show, controller.signal).catch((error: unknown) => {
      if (!controller.signal.aborted) setProblem(problemOf(error));
    });
    return () => controller.abort();
  }, [turn, ledger, row]);
  const again = () => setTurn((n) => n + 1);
  return (
    <div class="verify">
      <p>
        <button type="button" class="primary" disabled={running} onClick={again}>{turn === 0 ? "Verify here" : running ? "Verifying…" : "Verify again"}</button>{" "}
        <span class="quiet small">Your browser fetches the tree, computes every hash again, and checks the signature.</span>
      </p>
      {problem && <Failed problem={problem} again={again} />}
      {progress && <Outcome progress={progress} ledger={ledger} again={again} />}
    </div>
  );
}

function Outcome({ progress, ledger, again }: { progress: Progress; ledger: string; again: () => void }) {
  const shown = usePaced(progress.path.length);
  const drawn = shown >= progress.path.length;
  return (
    <>
      <div role="status">{progress.verdict && drawn && <VerdictBox progress={progress} />}</div>
      {progress.alarm && <AlarmBox alarm={progress.alarm} ledger={ledger} again={again} />}
      <div class="verify-sides">
        <ul class="checks">{progress.lines.map((line, i) => <CheckLine key={i} line={line} />)}</ul>
        {progress.ranges.length > 0 && <PathDrawing progress={progress} shown={shown} />}
      </div>
      {progress.verdict && progress.key && progress.origin && <Keys progress={progress} origin={progress.origin} again={again} />}
    </>
  );
}

/** usePaced follows a number upwards one by one, so that the eye can follow too. */
function usePaced(target: number): number {
  const [shown, setShown] = useState(0);
  const still = useRef(matchMedia("(prefers-reduced-motion: reduce)").matches);
  useEffect(() => {
    if (shown > target) setShown(0);
    if (shown >= target) return;
    if (still.current) {
      setShown(target);
      return;
    }
    const timer = setTimeout(() => setShown(shown + 1), pace);
    return () => clearTimeout(timer);
  }, [shown, target]);
  return Math.min(shown, target);
}

function VerdictBox({ progress }: { progress: Progress }) {
  const { verdict, size, index } = progress;
  if (verdict === "holds") {
    return (
      <div class="verdict verdict-good">
        <p class="verdict-title">Verified: this record is in the log, unchanged</p>
        <p>It is event {number(index)} of {number(size)}. Your browser computed this itself.{progress.firstSight && " It trusts the key of the log because it has seen no other key yet. Compare the key below with one that you have from the operator."}</p>
      </div>
    );
  }
  if (verdict === "unchecked") {
    return <div class="verdict verdict-wait"><p class="verdict-title">Not verified: this browser cannot check the signature</p><p>No check failed, but without the signature they prove nothing. Chrome, Chromium, and Edge check Ed25519 from version 137, Firefox from 129, Safari from 17. The page must be served over HTTPS or from localhost.</p></div>;
  }
  return <div class="verdict verdict-bad"><p class="verdict-title">Not verified: do not rely on this record</p><p>The line with ✗ shows which check failed.</p></div>;
}

/** AlarmBox warns of the whole log. */
export function AlarmBox({ alarm, ledger, again }: { alarm: Alarm; ledger: string; again: () => void }) {
  const [sure, setSure] = useState(false);
  const { evidence } = alarm;
  return (
    <div class="alarm" role="alert">
      <p class="verdict-title">{alarm.title}</p>
      <p><Raw text={alarm.says} /></p>
      <p class="fold">
        {evidence !== undefined && <button type="button" onClick={() => save(`two-checkpoints-${ledger}.json`, evidence)}>Download the evidence</button>}
        {sure ? <button type="button" onClick={() => {
          forget(ledger);
          again();
        }}>Yes, forget the earlier log</button>
          : <button type="button" class="link" onClick={() => setSure(true)}>The log was replaced on purpose: forget the earlier one</button>}
      </p>
    </div>
  );
}

const signs: Record<Line["verdict"], [class_: string, sign: string, words: string]> = {
  holds: ["good", "✓", "holds"], fails: ["bad", "✗", "does not hold"], unchecked: ["wait", "?", "not checked"], note: ["plain", "·", "note"],
};

function CheckLine({ line }: { line: Line }) {
  const [name, sign, words] = signs[line.verdict];
  return <li class="verify-line"><span class={`check check-${name}`} role="img" aria-label={words}>{sign}</span><span><strong>{line.name}.</strong> <span class="quiet"><Raw text={line.says} /></span></span></li>;
}

/** PathDrawing draws the path as far as it was followed and shown. */
function PathDrawing({ progress, shown }: { progress: Progress; shown: number }) {
  const { ranges, path, index, size, verification } = progress;
  const left = useMemo(() => ranges.map((range) => range.start < index), [ranges, index]);
  const { width, height, nodes, siblings } = useMemo(() => layOut(left, innerWidth < 520 ? 120 : 230), [left]);
  const holds = verification?.steps.some((step) => step.name === "inclusion" && step.verdict === "holds") ?? false;
  const refuted = verification?.steps.some((step) => step.name === "inclusion" && step.verdict === "fails") ?? false;
  const done = shown >= ranges.length;
  const short = (hash: Uint8Array | undefined) => (hash ? toHex(hash).slice(0, 10) : "");
  const rootClass = done && holds ? "path-root-good" : done && refuted ? "path-root-bad" : "";
  return (
    <figure class="path-figure">
      <div class="path-scroll">
        <svg class="path" width={width + 190} height={height} viewBox={`0 0 ${width + 190} ${height}`} role="img"
          aria-label={`The path from event ${index} to the root of the tree of ${size} events has ${ranges.length} steps${done && holds ? ", and leads to the signed root" : done && refuted ? ", and does not lead to the signed root" : ""}.`}>
          {ranges.map((range, i) => {
            const [node, parent, sibling] = [nodes[i], nodes[i + 1], siblings[i]];
            if (!node || !parent || !sibling) return null;
            const reached = i < shown, step = path[i];
            return (
              <g key={i} class={reached ? "path-reached" : ""}>
                <path class="path-edge path-aside" d={`M${sibling.x} ${sibling.y}L${parent.x} ${parent.y}`} />
                <path class="path-edge path-own" d={`M${node.x} ${node.y}L${parent.x} ${parent.y}`} />
                <circle class="path-sibling" cx={sibling.x} cy={sibling.y} r="4"><title>{`sibling, over ${spanOf(range.start, range.end)}${step ? `: ${toHex(step.sibling)}` : ""}`}</title></circle>
                <circle class="path-node" cx={node.x} cy={node.y} r="5" />
                <text class="path-text" x={width + 6} y={node.y + 4}>{i === 0 ? `event ${number(index)}, ` : ""}{i === 0 || reached ? `with ${spanOf(range.start, range.end)}` : ""}</text>
              </g>
            );
          })}
          {nodes.at(-1) && <g class={rootClass}><circle class="path-root" cx={nodes.at(-1)?.x} cy={nodes.at(-1)?.y} r="8" />
            <text class="path-text path-root-text" x={width + 6} y={(nodes.at(-1)?.y ?? 0) + 4}>{done && holds ? "= signed root" : done && refuted ? "≠ signed root" : "root"} {done ? short(path.at(-1)?.node) : ""}</text></g>}
        </svg>
      </div>
      <figcaption class="small quiet">From the event (below) to the root of {count(size, "event")} in {count(ranges.length, "step")}. A hollow circle is a sibling that was read from the tiles.</figcaption>
      {done && path.length > 0 && (
        <details class="small">
          <summary>The hashes of the path</summary>
          <div class="scroll" tabIndex={0}>
            <table class="plain">
              <thead><tr><th scope="col">Sibling over</th><th scope="col">Its hash</th><th scope="col">Gives</th></tr></thead>
              <tbody>{path.map((step, i) => <tr key={i}><td>{spanOf(step.siblingRange.start, step.siblingRange.end)}</td><td><code>{toHex(step.sibling)}</code></td><td><code>{toHex(step.node)}</code></td></tr>)}</tbody>
            </table>
          </div>
        </details>
      )}
    </figure>
  );
}

function spanOf(start: number, end: number): string {
  return end - start === 1 ? `event ${number(start)}` : `events ${number(start)}–${number(end - 1)}`;
}

/** Keys shows which keys were trusted, and takes those of witnesses. */
function Keys({ progress, origin, again }: { progress: Progress; origin: string; again: () => void }) {
  const [text, setText] = useState(() => witnessKeys(origin).join("\n"));
  const [says, setSays] = useState("");
  const keep = (event: Event) => {
    event.preventDefault();
    keepWitnessKeys(origin, text).then(() => {
      setSays("");
      again();
    }, (error: unknown) => setSays(problemOf(error).message));
  };
  return (
    <details open={progress.firstSight}>
      <summary>Whose keys?</summary>
      <p>The log's key, as this browser keeps it. Compare it with the key that the operator gives you through another channel:</p>
      <p><code class="key"><bdi>{progress.key}</bdi></code></p>
      <form class="stacked witnesses" onSubmit={keep}>
        <label for="witnesses">Keys of witnesses that you trust, one on each line</label>
        <textarea id="witnesses" rows={2} spellcheck={false} autocomplete="off" value={text} placeholder="witness.example+12345678+B…" onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit">Keep, and verify again</button>
      </form>
      <p role="status">{says}</p>
    </details>
  );
}
