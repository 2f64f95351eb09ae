import { UnsupportedError, VerificationError, type Code } from "./errors.js";
import type { PathStep } from "./tree.js";

/** holds: checked and right. fails: checked and wrong. unchecked: this runtime cannot check it. */
export type Verdict = "holds" | "fails" | "unchecked";

/** One check of a verification, for a page to show. */
export interface Step {
  /** Such as "checkpoint", "signature", "event", "inclusion". */
  readonly name: string;
  /** "running" is reported to onStep only: the step is under way. */
  readonly verdict: Verdict | "running";
  /** What was found, in a sentence. */
  readonly says: string;
  /** Only if the step fails or is unchecked. */
  readonly code?: Code;
  /** The path from the leaf to the root, as far as it has been followed. Only of the step "inclusion". */
  readonly path?: readonly PathStep[];
}

/** Makes checks one after the other and keeps their results. */
export class Steps {
  readonly list: Step[] = [];
  /** The first check that failed, else the first that could not be made. */
  error: VerificationError | undefined;
  path: PathStep[] = [];

  constructor(private readonly onStep?: (step: Step) => void) {}

  /** Makes a check, which returns what to say, and reports whether it held. */
  async check(name: string, check: () => string | Promise<string>): Promise<boolean> {
    this.path = [];
    try {
      const says = await check();
      this.add(this.step(name, "holds", says));
      return true;
    } catch (error) {
      if (!(error instanceof VerificationError)) throw error;
      const unable = error instanceof UnsupportedError;
      if (!this.error || (this.error instanceof UnsupportedError && !unable)) this.error = error;
      this.add({ ...this.step(name, unable ? "unchecked" : "fails", error.message), code: error.code });
      return false;
    }
  }

  /** Reports a step of the path that the check in progress follows. */
  follow(name: string, step: PathStep): void {
    this.path.push(step);
    this.onStep?.({ name, verdict: "running", says: "", path: [...this.path] });
  }

  get verdict(): Verdict {
    return (["fails", "unchecked"] as const).find((verdict) => this.list.some((s) => s.verdict === verdict)) ?? "holds";
  }

  private step(name: string, verdict: Verdict, says: string): Step {
    return this.path.length > 0 ? { name, verdict, says, path: this.path } : { name, verdict, says };
  }

  private add(step: Step): void {
    this.list.push(step);
    this.onStep?.(step);
  }
}
