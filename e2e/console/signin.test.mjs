// A person can sign in with a token, which only the tab keeps, or at an identity provider with the
// authorization code flow and PKCE.
import assert from "node:assert/strict";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { findings, launch, noBrowser, Proxy, Server, settled, watched } from "./support.mjs";

const base64url = (value) => Buffer.from(value).toString("base64url");

/** An identity provider: its metadata and keys, an authorization endpoint that redirects at once, and a token endpoint on another origin. */
class Issuer {
  codes = new Map();
  lies = {}; // a state or a nonce that replaces the right one
  asked = [];

  async start() {
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    this.privateKey = privateKey;
    this.jwk = { ...publicKey.export({ format: "jwk" }), kid: "first", alg: "RS256", use: "sig" };
    const listen = async () => {
      const server = createServer((request, response) => void this.#answer(request, response));
      await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
      return server;
    };
    [this.server, this.tokenServer] = [await listen(), await listen()];
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    this.tokenURL = `http://127.0.0.1:${this.tokenServer.address().port}/token`;
    return this;
  }

  async #answer(request, response) {
    const at = new URL(request.url, this.url);
    this.asked.push(at.pathname);
    const send = (status, value) => {
      response.writeHead(status, { "Content-Type": "application/json", "Access-Control-Allow-Origin": "*" });
      response.end(JSON.stringify(value));
    };
    if (at.pathname === "/.well-known/openid-configuration") {
      return send(200, { issuer: this.url, authorization_endpoint: `${this.url}/authorize`, token_endpoint: this.tokenURL, jwks_uri: `${this.url}/keys`,
        response_types_supported: ["code"], subject_types_supported: ["public"], id_token_signing_alg_values_supported: ["RS256"] });
    }
    if (at.pathname === "/keys") return send(200, { keys: [this.jwk] });
    if (at.pathname === "/authorize") {
      const asked = Object.fromEntries(at.searchParams);
      assert.equal(asked.response_type, "code");
      assert.equal(asked.code_challenge_method, "S256");
      const code = base64url(createHash("sha256").update(asked.state).digest());
      this.codes.set(code, asked);
      const back = new URL(asked.redirect_uri);
      back.searchParams.set("code", this.refuses ? "" : code);
      if (this.refuses) {
        back.searchParams.delete("code");
        back.searchParams.set("error", "access_denied");
        back.searchParams.set("error_description", "<b>not you</b>");
      }
      back.searchParams.set("state", this.lies.state ?? asked.state);
      response.writeHead(302, { Location: back.href });
      return response.end();
    }
    if (at.pathname === "/token") {
      let body = "";
      for await (const part of request) body += part;
      const form = Object.fromEntries(new URLSearchParams(body)), asked = this.codes.get(form.code);
      this.codes.delete(form.code);
      const challenge = base64url(createHash("sha256").update(form.code_verifier ?? "").digest());
      if (!asked || challenge !== asked.code_challenge || form.redirect_uri !== asked.redirect_uri || form.client_id !== asked.client_id || form.grant_type !== "authorization_code") {
        return send(400, { error: "invalid_grant" });
      }
      const now = Math.floor(Date.now() / 1000);
      const claims = { iss: this.url, aud: asked.client_id, sub: "ana", iat: now, exp: now + 600, nonce: this.lies.nonce ?? asked.nonce, groups: ["readers"] };
      const input = `${base64url(JSON.stringify({ alg: "RS256", kid: "first", typ: "JWT" }))}.${base64url(JSON.stringify(claims))}`;
      return send(200, { token_type: "Bearer", id_token: `${input}.${sign("sha256", Buffer.from(input), this.privateKey).toString("base64url")}`, access_token: "x" });
    }
    return send(404, {});
  }

  async remove() {
    for (const server of [this.server, this.tokenServer]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }
}

describe("signing in", { skip: noBrowser }, () => {
  let issuer, server, proxy, browser, token;
  before(async () => {
    issuer = await new Issuer().start();
    server = new Server();
    const file = `${server.folder}/access.yaml`;
    writeFileSync(file, `oidc:\n  - issuer: ${issuer.url}\n    audience: colophon-console\n    console_client_id: colophon-console\n    rules:\n      - claim: groups\n        value: readers\n        ledgers: [default]\n        scopes: [read, content, log]\n`, { mode: 0o600 });
    await server.start("--access-file", file);
    const made = server.run("token", "create", "--data", `${server.folder}/data`, "--name", "person", "--scope", "read,write,content");
    assert.equal(made.status, 0, made.stderr);
    token = made.stdout.trim().split(/\s+/).find((word) => word.length >= 30);
    const lines = (await (await fetch(`${server.url}/example.ndjson`)).text()).trim().split("\n");
    await server.post(lines, { Authorization: `Bearer ${token}` });
    proxy = await new Proxy().start(server.url);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await proxy?.remove();
    await server?.remove();
    await issuer?.remove();
  });

  async function open(address, use) {
    const context = await browser.newContext();
    const page = await watched(context, proxy.url);
    await page.goto(`${proxy.url}/#${address}`);
    try {
      await use(page, context);
      for (const what of ["dialogs", "errors", "violations"]) assert.deepEqual(page.seen[what], [], what);
    } finally {
      await context.close();
    }
  }

  it("asks for credentials, takes a token, goes back to where the person was, and keeps the token in the tab only", () => open("/default/record/1", async (page, context) => {
    await page.getByText("You must sign in to see this ledger").waitFor();
    assert.deepEqual(await findings(page), []);
    await page.locator("main").getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Token").fill("not a token");
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByText("The server does not know this token").waitFor();
    assert.deepEqual(await findings(page), []);
    await page.getByLabel("Token").fill(token);
    await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Sign in", exact: true }).click()]);
    await page.getByRole("button", { name: "Verify here" }).waitFor();
    assert.match(page.url(), /#\/default\/record\/1$/);
    await settled(page);
    assert.ok(!JSON.stringify(await context.storageState()).includes(token), "the token is in a storage that outlives the tab");
    assert.ok(!page.url().includes(token));
    const second = await context.newPage();
    await second.goto(`${proxy.url}/#/default/record/1`);
    await second.getByText("You must sign in to see this ledger").waitFor();
    await Promise.all([page.waitForEvent("load"), page.getByRole("button", { name: "Sign out" }).click()]);
    await page.getByText("You must sign in to see this ledger").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  }));

  it("signs in at an identity provider with PKCE", () => open("/-/sign-in?back=%23%2Fdefault%2Frecord%2F2", async (page) => {
    await page.getByRole("button", { name: /Sign in at 127\.0\.0\.1/ }).click();
    await page.getByRole("button", { name: "Verify here" }).waitFor();
    await settled(page);
    assert.equal(page.url(), `${proxy.url}/#/default/record/2`, "the code must not stay in the address");
    assert.ok(issuer.asked.includes("/token"));
    assert.equal(await page.evaluate(() => Object.keys(localStorage).some((name) => name.includes("token"))), false);
    assert.equal(await page.getByText("Conditions").count() > 0, true);
  }));

  for (const [what, lies, refuses, says] of [
    ["of another sign-in", { nonce: "another" }, false, /belongs to another sign-in/],
    ["with another state", { state: "another" }, false, /did not begin this sign-in/],
    ["that is refused", {}, true, /refused: <b>not you<\/b>/],
  ]) {
    it(`does not accept an answer ${what}`, () => open("/-/sign-in", async (page) => {
      [issuer.lies, issuer.refuses] = [lies, refuses];
      try {
        await page.getByRole("button", { name: /Sign in at/ }).click();
        await page.getByText("Not signed in").waitFor();
        assert.match(await page.locator("main").innerText(), says);
        assert.equal(await page.evaluate(() => sessionStorage.getItem("colophon.token")), null);
        assert.doesNotMatch(page.url(), /code=|error=/);
      } finally {
        [issuer.lies, issuer.refuses] = [{}, false];
      }
    }));
  }
});
