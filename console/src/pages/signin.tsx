import { useState } from "preact/hooks";
import { request, setToken } from "../api/client.ts";
import { problemOf, useLoad } from "../api/load.ts";
import { begin, signInSettings, type Provider } from "../api/signin.ts";
import { Empty, Loads } from "../parts/states.tsx";
import { usePlace } from "../router.ts";

/** SignInPage takes a token, or leads to the identity provider. */
export function SignInPage() {
  const back = usePlace().query.get("back") ?? "";
  const settings = useLoad("settings", signInSettings);
  return (
    <>
      <h1>Sign in</h1>
      <Loads of={settings}>
        {(known) => (
          <>
            {!known.required && <p>This server requires no credentials. <a href="#/">Open the ledger</a></p>}
            {known.oidc.map((provider) => <ProviderButton key={provider.issuer} provider={provider} back={back} />)}
            {known.tokens && <TokenForm back={back} />}
            {known.required && !known.tokens && known.oidc.length === 0 && <Empty title="A browser cannot sign in here yet">
              {known.certificates ? "This server takes client certificates: install yours in the browser, and load this page again. " : ""}
              The operator can create a token with <code>colophon token create</code>, or set <code>console_client_id</code> for an issuer.</Empty>}
          </>
        )}
      </Loads>
    </>
  );
}

function ProviderButton({ provider, back }: { provider: Provider; back: string }) {
  const [says, setSays] = useState("");
  const start = () => {
    setSays("Opening the identity provider…");
    begin(provider, back).catch((error: unknown) => setSays(`The identity provider cannot be reached: ${problemOf(error).message}`));
  };
  return (
    <section>
      <h2>With your organisation’s account</h2>
      <p><button type="button" class="primary" onClick={start}>Sign in at <bdi>{provider.issuer.replace(/^https?:\/\//, "")}</bdi></button></p>
      <p role="status">{says}</p>
    </section>
  );
}

function TokenForm({ back }: { back: string }) {
  const [text, setText] = useState("");
  const [says, setSays] = useState("");
  const enter = async () => {
    setToken(text.trim());
    setSays("Checking the token…");
    try {
      await request("v1/ledgers");
    } catch (error) {
      setToken(null);
      const problem = problemOf(error);
      setSays(problem.status === 401 ? "The server does not know this token. Check that it is complete, and that it has not expired." : problem.message);
      return;
    }
    // A new start forgets every answer that was for another caller.
    location.hash = back.startsWith("#/") ? back : "#/";
    location.reload();
  };
  return (
    <section>
      <h2>With a token</h2>
      <form class="stacked" onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) void enter();
      }}>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="primary">Sign in</button>
      </form>
      <p role="status">{says}</p>
      <p class="quiet">The operator creates a token with <code>colophon token create</code>. Reading texts needs the scopes <code>read</code> and <code>content</code>.
        The token stays in this tab until you close it.</p>
    </section>
  );
}
