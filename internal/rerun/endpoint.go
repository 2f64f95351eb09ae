package rerun

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/ledger/record/pyjson"
)

// API identifies the format of an endpoint's requests and responses.
type API string

// The supported APIs.
const (
	APIOllama API = "ollama" // /api/generate and /api/chat
	APIOpenAI API = "openai" // /chat/completions
)

// Limits on an endpoint's response body.
const (
	maxAnswer = 4 << 20 // in bytes
	maxValues = 1 << 20 // number of JSON values; it is large because Ollama returns the tokens of the prompt
)

// Endpoint is a server that generates text.
type Endpoint struct {
	API API // the API that the endpoint serves
	// APIKey is the API key, or empty if there is none, and APIKeyEnvVar names the environment
	// variable that holds it.
	APIKey, APIKeyEnvVar string
	// Timeout is the time limit for each request, including reading the response.
	Timeout time.Duration

	base string // URL without a trailing slash and without the path of an API call
	http *http.Client
}

// NewEndpoint returns an Endpoint for a URL. If api is empty, NewEndpoint chooses APIOpenAI if the
// URL's path ends in /v1 or /chat/completions, and APIOllama otherwise. It sends no request.
func NewEndpoint(address string, api API) (*Endpoint, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, cli.ExitErrorf(cli.ExitUsage, "--endpoint: invalid value %q; use a URL such as http://127.0.0.1:11434", address)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, cli.ExitErrorf(cli.ExitUsage, "--endpoint: the URL must not contain a user name or parameters, because other users can read command lines; put the API key into the environment variable named by --key-variable")
	}
	base := strings.TrimRight(u.String(), "/")
	for _, call := range []string{"/api/generate", "/api/chat", "/chat/completions"} {
		if rest, found := strings.CutSuffix(base, call); found {
			base = rest
			if api == "" && call == "/chat/completions" {
				api = APIOpenAI
			}
		}
	}
	switch {
	case api == "" && strings.HasSuffix(base, "/v1"):
		api = APIOpenAI
	case api == "":
		api = APIOllama
	case api != APIOllama && api != APIOpenAI:
		return nil, cli.ExitErrorf(cli.ExitUsage, "--api: invalid value %q; use ollama or openai", api)
	}
	return &Endpoint{API: api, base: base, http: &http.Client{
		Transport: http.DefaultTransport.(*http.Transport).Clone(),
		// The target of a redirect must not receive the key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// String returns the endpoint's URL without the path of an API call.
func (e *Endpoint) String() string { return e.base }

// ExposesKey reports whether the key would be sent unencrypted over a network.
func (e *Endpoint) ExposesKey() bool {
	u, err := url.Parse(e.base)
	return err == nil && e.APIKey != "" && u.Scheme == "http" && !cli.IsLoopback(u.Hostname())
}

func (e *Endpoint) at(path string) string { return e.base + path }

// Generation is one text that the endpoint generated.
type Generation struct {
	Output string          // the generated text
	Usage  json.RawMessage // an object with token counts; nil if there are none
	// SystemFingerprint is the member system_fingerprint of the response. The same seed can be
	// expected to produce the same output only if the fingerprint is the same. It is empty if the
	// endpoint does not send one.
	SystemFingerprint string
}

// Generate sends a request and decodes the response. Its errors contain advice for the user of the
// command.
func (e *Endpoint) Generate(ctx context.Context, r *Request) (*Generation, error) {
	answer, err := e.do(ctx, http.MethodPost, r.URL, r.Body)
	if err != nil {
		return nil, err
	}
	var document pyjson.Document
	if err := document.ParseLimited(answer, maxValues); err != nil {
		return nil, e.malformed(r.URL, err.Error())
	}
	root := document.Root()
	output, counts := root.Member("response"), root
	switch {
	case e.API == APIOpenAI:
		output, counts = pyjson.Value{}, root.Member("usage")
		for choice := range root.Member("choices").Elements() {
			output = choice.Member("message").Member("content")
			break
		}
	case strings.HasSuffix(r.URL, "/api/chat"):
		output = root.Member("message").Member("content")
	}
	switch {
	case output.Kind() != pyjson.String:
		return nil, e.malformed(r.URL, "the response contains no text")
	case pyjson.HasLoneSurrogate(output.Text()):
		return nil, cli.ExitErrorf(cli.ExitFailed, "the text from %s contains an unpaired surrogate, which a ledger cannot record; run the command again", r.URL)
	}
	g := &Generation{Output: string(output.Text()), Usage: usage(counts)}
	if print := root.Member("system_fingerprint"); print.Kind() == pyjson.String && !pyjson.HasLoneSurrogate(print.Text()) {
		g.SystemFingerprint = string(print.Text())
	}
	return g, nil
}

// usage returns the token counts of a response as a JSON object, or nil if there are none.
func usage(counts pyjson.Value) json.RawMessage {
	object := make(map[string]json.RawMessage)
	for _, name := range []string{"prompt_eval_count", "eval_count", "prompt_tokens", "completion_tokens", "total_tokens"} {
		if count := counts.Member(name); count.Kind() == pyjson.Integer {
			object[name] = json.RawMessage(count.Raw())
		}
	}
	text, err := json.Marshal(object)
	if err != nil || len(object) == 0 {
		return nil
	}
	return text
}

// ModelDigest returns the digest of a model at an Ollama endpoint, or "" if the endpoint does
// not report it.
func (e *Endpoint) ModelDigest(ctx context.Context, model string) string {
	if e.API != APIOllama {
		return ""
	}
	answer, err := e.do(ctx, http.MethodGet, e.at("/api/tags"), nil)
	if err != nil {
		return ""
	}
	var list struct {
		Models []struct{ Name, Digest string }
	}
	if json.Unmarshal(answer, &list) != nil {
		return ""
	}
	for _, m := range list.Models {
		if m.Name == model || m.Name == model+":latest" {
			return m.Digest
		}
	}
	return ""
}

// do sends a request, and returns the response body if the status is 200. It fails if the body is
// longer than maxAnswer, or has not arrived within Timeout.
func (e *Endpoint) do(ctx context.Context, method, target string, body []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if e.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+e.APIKey)
	}
	response, err := e.http.Do(request)
	if err != nil {
		return nil, e.unanswered(ctx, target, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, e.unanswered(ctx, target, err)
	case response.StatusCode != http.StatusOK:
		return nil, e.refused(target, response, answer)
	case len(answer) > maxAnswer:
		return nil, cli.ExitErrorf(cli.ExitFailed, "the response from %s is longer than %d bytes; use another --endpoint, or a record with a smaller max_tokens", target, maxAnswer)
	}
	return answer, nil
}

// unanswered returns the error for a request that did not get a complete response. The error
// contains advice.
func (e *Endpoint) unanswered(ctx context.Context, target string, err error) error {
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err // drop the method and the URL from the message
	}
	certificate := (*tls.CertificateVerificationError)(nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return cli.ExitErrorf(cli.ExitUnreachable, "no complete response from %s within %s; use a longer --timeout, or check that the endpoint's machine has enough memory for the model", target, e.Timeout)
	case errors.As(err, &certificate):
		return cli.ExitErrorf(cli.ExitUnreachable, "no response from %s: %w; on the endpoint, install a certificate that this machine trusts", target, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return cli.ExitErrorf(cli.ExitUnreachable, "no response from %s: %w; use http instead of https", target, err)
	}
	return cli.ExitErrorf(cli.ExitUnreachable, "no response from %s: %w; check that the endpoint is running (ollama serve) and that --endpoint is its address", target, err)
}

// refused returns the error for a response whose status is not 200. The error contains advice.
func (e *Endpoint) refused(target string, response *http.Response, body []byte) error {
	reason, advice := reasonOf(body), "see the log of the endpoint"
	switch status := response.StatusCode; {
	case (status == http.StatusUnauthorized || status == http.StatusForbidden) && e.APIKey == "":
		advice = fmt.Sprintf("the endpoint requires an API key: put it into the environment variable %s, or name another variable with --key-variable", e.APIKeyEnvVar)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		advice = fmt.Sprintf("the endpoint rejects the API key in the environment variable %s: set the variable to a valid key", e.APIKeyEnvVar)
	case status == http.StatusNotFound && strings.Contains(reason, "model"):
		advice = "the endpoint does not have the recorded model: add the model to the endpoint (Ollama: ollama pull), or use another --endpoint"
	case status == http.StatusNotFound && e.API == APIOllama:
		advice = "the endpoint does not seem to implement Ollama's API: if it implements OpenAI's API, give a URL that ends in /v1, or --api openai"
	case status == http.StatusNotFound:
		advice = "the endpoint does not seem to implement OpenAI's API: if it implements Ollama's own API, give its URL without a path, or --api ollama"
	case status/100 == 3:
		advice = fmt.Sprintf("the endpoint redirects to %.200q: if that URL is the right endpoint, pass it with --endpoint", response.Header.Get("Location"))
	case status == http.StatusTooManyRequests:
		advice = "the endpoint limits the number of requests: wait, then run the command again with -n set to the number of remaining runs"
	case status == http.StatusServiceUnavailable:
		advice = "the endpoint is busy: wait, then run the command again with -n set to the number of remaining runs"
	case status/100 == 4 && strings.Contains(reason, "seed"):
		advice = "the endpoint accepts no seed, so it cannot reproduce the run of this record; give an --endpoint that accepts a seed, such as Ollama"
	case status/100 == 4:
		advice = "the endpoint does not accept the request; to see the request, run the command with --dry-run"
	}
	if reason != "" {
		reason = " " + reason
	}
	return cli.ExitErrorf(cli.ExitFailed, "%s: %d%s; %s", target, response.StatusCode, reason, advice)
}

// reasonOf returns the reason given in the body of an error response, in quotes. It reads the
// member error (Ollama), error.message (OpenAI), or message or detail (other servers). If there is
// no reason, it returns "".
func reasonOf(body []byte) string {
	var problem, inner struct {
		Error, Message, Detail json.RawMessage
	}
	if json.Unmarshal(body, &problem) != nil {
		return ""
	}
	_ = json.Unmarshal(problem.Error, &inner) // error can be a string instead of an object, so failing to decode it is fine
	for _, value := range []json.RawMessage{problem.Error, inner.Message, problem.Message, problem.Detail} {
		if text := ""; json.Unmarshal(value, &text) == nil && text != "" {
			return fmt.Sprintf("%.300q", text)
		}
	}
	return ""
}

func (e *Endpoint) malformed(target, why string) error {
	return cli.ExitErrorf(cli.ExitFailed, "the response from %s does not conform to the %s API: %s; use --api ollama or --api openai, whichever the endpoint implements", target, map[API]string{APIOllama: "Ollama", APIOpenAI: "OpenAI"}[e.API], why)
}
