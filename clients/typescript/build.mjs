// Builds dist from src, and the script of the audit pack's page, which uses the same rules. The same
// sources give the same bytes on every machine: package-lock.json has the versions of the tools.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");

await build({
  absWorkingDir: root,
  entryPoints: ["proofs/pack/page/src/show.js"],
  bundle: true,
  format: "iife",
  globalName: "auditPack",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: `"use strict";` },
  logLevel: "warning",
  outfile: join(root, "proofs", "pack", "page", "page.js"),
});
rmSync(join(here, "dist"), { recursive: true, force: true });
process.exitCode = spawnSync(process.execPath, [join(here, "node_modules", "typescript", "bin", "tsc")], { cwd: here, stdio: "inherit" }).status ?? 1;
