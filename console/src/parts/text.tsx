// Texts of strangers, shown as nothing but text.
import { useState } from "preact/hooks";
import { number } from "../words.ts";
import { cut, firstLine, pieces, visibleLines } from "./safe.ts";

/** Raw shows a text with its hidden characters marked. The text cannot change the direction of what surrounds it. */
export function Raw({ text }: { text: string }) {
  return (
    <bdi>
      {pieces(text).map((piece, i) =>
        "text" in piece ? piece.text : (
          <span key={i} class="hidden-mark" title={`${piece.mark}: ${piece.name}`} role="img" aria-label={piece.name}>{piece.mark}</span>
        ))}
    </bdi>
  );
}

/** Line shows the beginning of a text on one line. */
export function Line({ text, most = 90 }: { text: string; most?: number }) {
  return text.trim() === "" ? <span class="quiet">(empty)</span> : <Raw text={firstLine(text, most)} />;
}

const folded = { lines: 14, units: 1400 };
const step = 40_000; // units that "Show more" adds; a browser lays out so many at once without a pause

/** Text shows a whole text, folded if it is long. It draws at most `step` more characters at a time, so that a text of a megabyte does not stop the page. */
export function Text({ text, valid = true, label }: { text: string; valid?: boolean; label: string }) {
  const [shown, setShown] = useState(0);
  const start = visibleLines(text, folded.lines, folded.units);
  const part = shown === 0 ? start : cut(text, shown);
  const rest = text.length - part.length;
  return (
    <figure class="text" aria-label={label}>
      <blockquote>{text === "" ? <span class="quiet">(empty)</span> : <Raw text={part} />}</blockquote>
      {!valid && <p class="note">Some bytes of this text are not UTF-8. They are shown as U+FFFD: �</p>}
      {(rest > 0 || shown > 0) && (
        <p class="fold">
          {rest > 0 && <button type="button" class="link" onClick={() => setShown(Math.max(shown, start.length) + step)}>Show {rest > step ? `${number(step)} more` : "all"} of {number(text.length)} characters</button>}
          {shown > 0 && <button type="button" class="link" onClick={() => setShown(0)}>Fold</button>}
        </p>
      )}
    </figure>
  );
}
