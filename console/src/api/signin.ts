// Signing in with OpenID Connect: the authorization code flow with PKCE (RFC 7636).
import { get, Problem, setToken, type Schemas } from "./client.ts";
import { forTab } from "./kept.ts";

/** Provider is an identity provider whose tokens the server accepts, and the id of the console there. */
export type Provider = Schemas["SignIn"]["oidc"][number];

/** Settings are what the server tells every caller about signing in. */
export type Settings = Schemas["SignIn"];

let settings: Promise<Settings> | undefined;

/** signInSettings asks the server once. */
export function signInSettings(): Promise<Settings> {
  settings ??= get("/sign-in", undefined as never).catch((error: unknown) => {
    settings = undefined;
    throw error;
  });
  return settings;
}

interface Endpoints {
  authorization_endpoint: string;
  token_endpoint: string;
}

async function discover(issuer: string): Promise<Endpoints> {
  const response = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, { credentials: "omit" });
  if (!response.ok) throw new Problem(response.status, "No answer", `The identity provider ${issuer} does not say how to sign in.`);
  const found = (await response.json()) as Partial<Endpoints & { issuer: string }>;
  if (found.issuer !== issuer || !found.authorization_endpoint || !found.token_endpoint) throw new Problem(-1, "No answer", `The identity provider ${issuer} describes itself incompletely.`);
  return { authorization_endpoint: found.authorization_endpoint, token_endpoint: found.token_endpoint };
}

export function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** challengeOf returns the code challenge (S256) of a verifier. */
export async function challengeOf(verifier: string): Promise<string> {
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

interface Begun {
  state: string;
  nonce: string;
  verifier: string;
  provider: Provider;
  tokenEndpoint: string;
  back: string; // the fragment to return to
}

const begunName = "signing-in";

/** home is the address to which the provider returns: that of the page, without fragment and query. */
function home(): string {
  return new URL(".", document.baseURI).href;
}

/** begin leaves the page for the provider. */
export async function begin(provider: Provider, back: string): Promise<void> {
  const at = await discover(provider.issuer);
  const begun: Begun = { state: random(), nonce: random(), verifier: random(), provider, tokenEndpoint: at.token_endpoint, back };
  forTab.set(begunName, JSON.stringify(begun));
  const to = new URL(at.authorization_endpoint);
  const parameters = {
    response_type: "code", client_id: provider.client_id, redirect_uri: home(), scope: "openid",
    state: begun.state, nonce: begun.nonce, code_challenge: await challengeOf(begun.verifier), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) to.searchParams.set(name, value);
  location.assign(to);
}

/** claimsOf reads the claims of a JWT. The server checks the signature; the page reads only the nonce. */
export function claimsOf(jwt: string): Record<string, unknown> {
  const body = (jwt.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/");
  try {
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(body), (c) => c.charCodeAt(0)))) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** complete finishes a sign-in if the provider has just returned to the page. It returns the fragment to go to, or undefined if there was no sign-in. */
export async function complete(search: string): Promise<string | undefined> {
  const answer = new URLSearchParams(search), kept = forTab.get(begunName);
  const code = answer.get("code"), refused = answer.get("error");
  if (code === null && refused === null) return undefined;
  forTab.set(begunName, null);
  history.replaceState(null, "", home() + location.hash); // the code must not stay in the address
  const begun = kept === null ? undefined : (JSON.parse(kept) as Begun);
  if (begun?.state === undefined || answer.get("state") !== begun.state) throw new Problem(-1, "Not signed in", "This page did not begin this sign-in. Begin again.");
  if (refused !== null || code === null) throw new Problem(-1, "Not signed in", `The identity provider refused: ${answer.get("error_description") ?? refused ?? ""}`);
  const response = await fetch(begun.tokenEndpoint, {
    method: "POST", credentials: "omit", headers: { "Content-Type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: home(), client_id: begun.provider.client_id, code_verifier: begun.verifier }).toString(),
  });
  const tokens = (await response.json().catch(() => ({}))) as { id_token?: string; error?: string; error_description?: string };
  if (!response.ok || !tokens.id_token) throw new Problem(-1, "Not signed in", `The identity provider gave no token: ${tokens.error_description ?? tokens.error ?? response.statusText}`);
  if (claimsOf(tokens.id_token).nonce !== begun.nonce) throw new Problem(-1, "Not signed in", "The token belongs to another sign-in. Begin again.");
  setToken(tokens.id_token);
  return begun.back;
}
