// Builds dist from src, or bundles and runs the unit tests. The same sources give the same
// bytes on every machine: the versions of everything that takes part are in package-lock.json.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, "src");

/** Lists the files below a folder, sorted by path. */
function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

const options = {
  bundle: true,
  format: "esm",
  target: ["chrome123", "firefox121", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  legalComments: "none",
  absWorkingDir: here,
};

async function buildPage() {
  const dist = join(here, "dist");
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  const result = await build({ ...options, entryPoints: { app: "src/main.tsx", style: "src/style.css" }, outdir: dist, minify: true, charset: "utf8", metafile: true });
  cpSync(join(source, "index.html"), join(dist, "index.html"));
  cpSync(join(source, "icon.svg"), join(dist, "icon.svg"));
  writeFileSync(join(dist, "licences.txt"), licences(result.metafile));
  writeFileSync(join(dist, "sources.txt"), digests(result.metafile));
}

/** Returns the licences of the packages whose code is in the bundle. */
function licences(metafile) {
  const packages = new Set();
  for (const file of Object.keys(metafile.inputs)) {
    const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file);
    if (found) packages.add(found[1]);
  }
  let text = "The page contains code of these packages.\n";
  for (const name of [...packages].sort()) {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    text += `\n== ${name} ${version}\n\n${licence ? readFileSync(join(folder, licence), "utf8").trim() : "see its package.json"}\n`;
  }
  return text;
}

/** Returns the SHA-256 of each source file, in the format of sha256sum. A Go test compares them, so that a stale build is noticed without Node. */
function digests(metafile) {
  const own = Object.keys(metafile.inputs).filter((file) => !file.startsWith("node_modules/")).map((file) => join(here, file));
  const all = [...own, join(source, "index.html"), join(source, "icon.svg"), join(here, "package-lock.json"), join(here, "build.mjs")];
  const names = [...new Set(all.map((file) => relative(here, file).replaceAll("\\", "/")))].sort();
  return names.map((name) => `${createHash("sha256").update(readFileSync(join(here, name))).digest("hex")}  ${name}\n`).join("");
}

async function runTests() {
  const scratch = mkdtempSync(join(tmpdir(), "colophon-console-"));
  try {
    const tests = filesBelow(source).filter((file) => /\.test\.tsx?$/.test(file));
    await build({ ...options, entryPoints: tests, outdir: scratch, outExtension: { ".js": ".mjs" }, platform: "node", target: "node20", sourcemap: "inline" });
    const built = filesBelow(scratch).filter((file) => file.endsWith(".mjs"));
    return spawnSync(process.execPath, ["--enable-source-maps", "--test", ...built], { stdio: "inherit", cwd: here }).status ?? 1;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

switch (process.argv[2]) {
  case "build":
    await buildPage();
    break;
  case "test":
    process.exitCode = await runTests();
    break;
  default:
    console.error("usage: node build.mjs build|test");
    process.exitCode = 2;
}
