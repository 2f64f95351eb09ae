import assert from "node:assert/strict";
import { test } from "node:test";
import { base64url, challengeOf, claimsOf } from "./signin.ts";

test("the challenge is that of RFC 7636, appendix B", async () => {
  assert.equal(await challengeOf("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
});

test("claims are read from the middle of a JWT", () => {
  const claims = { nonce: "ü", sub: "ana" };
  const jwt = `e30.${base64url(new TextEncoder().encode(JSON.stringify(claims)))}.x`;
  assert.deepEqual(claimsOf(jwt), claims);
  for (const broken of ["", "a", "a.b.c", "a.%%.c"]) assert.deepEqual(claimsOf(broken), {});
});
