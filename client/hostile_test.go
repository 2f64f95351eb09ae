package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
	"colophon/proofs"
)

// The client sends the token only to its own server, even if that server redirects it elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	thief, stolen := answering(t, ok)
	for _, status := range []int{301, 302, 303, 307, 308} {
		server, _ := answering(t, problem(status, "Location", thief.URL+"/v1/ledgers/default"))
		follows := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
		l := connect(t, server.URL, client.WithToken("secret"), client.WithHTTPClient(follows)).Ledger("default")
		_, err := l.Describe(t.Context())
		require.ErrorContains(t, err, "redirects to")
		_, err = l.Records.Post(t.Context(), generation("x"), nil)
		require.ErrorContains(t, err, thief.URL)
		for _, err := range l.Events.Follow(t.Context(), 0) {
			require.ErrorContains(t, err, "redirects to")
		}
		page, err := l.Records.List(nil).ReadPage(t.Context(), "")
		require.Nil(t, page)
		require.Error(t, err)
	}
	require.Zero(t, stolen.Load())
}

func TestHostileAnswers(t *testing.T) {
	var bomb bytes.Buffer
	squeezed := gzip.NewWriter(&bomb)
	_, _ = io.Copy(squeezed, io.LimitReader(zeros{}, 1<<24))
	require.NoError(t, squeezed.Close())
	for name, handler := range map[string]http.HandlerFunc{
		"endless": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) },
		"bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"empty":        text(),
		"null":         text("null"),
		"list":         text("[]"),
		"page":         text("<html>Welcome to the hotel's network</html>"),
		"wrong type":   text(`{"name":1}`),
		"negative":     text(`{"tree_size":-1}`),
		"fraction":     text(`{"tree_size":1.5}`),
		"too large":    text(`{"tree_size":18446744073709551616}`),
		"two values":   text(`{} {}`),
		"deep":         text(`{"name":` + strings.Repeat("[", 100_000)),
		"cut":          cutOff,
		"endless page": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); _, _ = io.Copy(w, zeros{}) },
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := answering(t, handler)
			l := connect(t, server.URL, client.WithMaxResponseBytes(1<<20)).Ledger("default")
			description, err := l.Describe(t.Context())
			require.Nil(t, description)
			switch name {
			case "cut":
				require.ErrorIs(t, err, client.ErrUnreachable)
			case "endless page":
				require.ErrorIs(t, err, client.ErrNotFound)
				require.Less(t, len(err.Error()), 200)
			default:
				require.ErrorIs(t, err, client.ErrUnexpectedResponse)
				require.Less(t, len(err.Error()), 400)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Calls, batches, and streams give up on a server that stops answering.
func TestSlowServers(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"no headers": func(http.ResponseWriter) {},
		"headers":    func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"problem":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			server, requests := answering(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if strings.HasSuffix(r.URL.Path, "/events") || strings.HasSuffix(r.URL.Path, "/export") {
					begin(w)
				}
				<-r.Context().Done()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in case the client waits forever
			defer cancel()
			l := connect(t, server.URL, client.WithTimeout(20*time.Millisecond), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 2})).Ledger("default")
			want, other := client.ErrUnreachable, client.ErrNotFound
			if name == "problem" { // its text is not needed
				want, other = other, want
			}
			_, err := l.Describe(ctx)
			require.ErrorIs(t, err, client.ErrUnreachable)
			require.Equal(t, int32(2), requests.Load())
			_, err = l.Export(ctx, "/records", 0, func([]byte) error { return nil })
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, other)
			for _, err := range l.Events.Follow(ctx, 0) {
				require.ErrorIs(t, err, want)
			}
			for _, err := range l.Events.All(ctx, 0) {
				require.ErrorIs(t, err, want)
			}
			require.NoError(t, ctx.Err())
		})
	}
}

func TestEndlessLists(t *testing.T) {
	server, _ := answering(t, text(`{"as_of":1,"rows":[{"seq":1}],"next":"again"}`))
	n := 0
	for _, err := range connect(t, server.URL).Ledger("default").Records.List(nil).All(t.Context()) {
		if n++; err != nil {
			require.ErrorIs(t, err, client.ErrUnexpectedResponse)
		}
	}
	require.Equal(t, 2, n)
}

func TestCursorCyclesEndLists(t *testing.T) {
	next := map[string]string{"": "a", "a": "b", "b": "c", "c": "a"}
	server, requests := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"as_of":1,"rows":[],"next":%q}`, next[r.URL.Query().Get("cursor")])
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in case the client follows the cycle forever
	defer cancel()
	n := 0
	for _, err := range connect(t, server.URL).Ledger("default").Records.List(nil).All(ctx) {
		n++
		require.ErrorIs(t, err, client.ErrUnexpectedResponse)
	}
	require.Equal(t, 1, n)
	require.Less(t, requests.Load(), int32(10))
}

// The client refuses a response with too many elements, even if its JSON is short. Each decoded row
// of a list takes up a few hundred bytes of memory.
func TestAnswersWithTooManyElementsAreRefused(t *testing.T) {
	for _, element := range []string{"0", "{}", "null", "[]", `""`} {
		many := strings.Repeat(element+",", 1<<20)
		for _, answer := range []string{`{"rows":[` + many + element + `]}`, `{"rows":[{"event":{"a\"]":{},"b":[` + many + element + `]}}]}`} {
			server, _ := answering(t, text(answer))
			_, err := connect(t, server.URL).Ledger("default").Records.List(nil).ReadPage(t.Context(), "")
			require.ErrorIs(t, err, client.ErrUnexpectedResponse)
			require.ErrorContains(t, err, "elements")
		}
	}
	few := strings.Repeat(`"[,",`, 1<<20-2) // commas inside strings do not separate elements
	server, _ := answering(t, text(`{"rows":[{"event":{"a":[`+few+`""]}}]}`))
	page, err := connect(t, server.URL).Ledger("default").Records.List(nil).ReadPage(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, page.Rows, 1)
}

// Names in URL paths are escaped, so that no name can lead to a different endpoint.
func TestPathsAreEscaped(t *testing.T) {
	var paths collected[string]
	server, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		paths.add(r.RequestURI)
		_, _ = io.WriteString(w, "{}")
	})
	c := connect(t, server.URL+"/prefix/")
	for _, name := range []string{"..", ".", "a/b", "a?b#c", "ü %", "a:b"} {
		_, err := c.Ledger("default").Sources.Get(t.Context(), name, nil)
		require.NoError(t, err)
	}
	const sources = "/prefix/v1/ledgers/default/sources/"
	require.Equal(t, []string{sources + "%2E%2E", sources + "%2E", sources + "a%2Fb", sources + "a%3Fb%23c", sources + "%C3%BC%20%25", sources + "a:b"}, paths.all())
}

func TestDo(t *testing.T) {
	server, requests := answering(t, cutOff, ok, cutOff)
	c := connect(t, server.URL, client.WithToken("secret"))
	answer, err := c.Do(t.Context(), client.Request{Path: "/v1/ledgers/default/stats?x=1", Query: url.Values{"y": {"2"}}, Header: map[string]string{"Accept": "text/plain"}})
	require.NoError(t, err)
	require.JSONEq(t, minimalReceipt, string(answer.Body))
	require.Equal(t, http.StatusOK, answer.Status)
	require.NotEmpty(t, answer.Header.Get("Date"))
	_, err = c.Do(t.Context(), client.Request{Method: http.MethodPost, Path: "/v1/ledgers", Body: []byte(`{}`)})
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.Equal(t, int32(3), requests.Load())
	_, err = c.Do(t.Context(), client.Request{Path: ".thief.example/"})
	require.ErrorContains(t, err, "does not begin with a slash")
	require.Equal(t, int32(3), requests.Load())
}

// Do refuses a response that is longer than MaxResponseBytes. A large Content-Length alone does not make
// the client allocate memory.
func TestDoIsBounded(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	server, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			_, _ = io.WriteString(w, "x")
			return
		}
		_, _ = io.WriteString(w, long)
	})
	c := connect(t, server.URL, client.WithMaxResponseBytes(1<<40), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1}))
	answer, err := c.Do(t.Context(), client.Request{Path: "/long"})
	require.NoError(t, err)
	require.Equal(t, long, string(answer.Body))
	answer, err = c.Do(t.Context(), client.Request{Path: "/long", MaxResponseBytes: 3 << 20})
	require.NoError(t, err)
	require.Len(t, answer.Body, 3<<20)
	_, err = c.Do(t.Context(), client.Request{Path: "/long", MaxResponseBytes: 3<<20 - 1})
	require.ErrorIs(t, err, client.ErrUnexpectedResponse)
	_, err = c.Do(t.Context(), client.Request{Path: "/short"})
	require.ErrorIs(t, err, client.ErrUnreachable)
}

func TestNewRefuses(t *testing.T) {
	for _, url := range []string{"", "ledger.example", "ftp://ledger.example", "https://", "https://u:p@ledger.example", "https://ledger.example?x=1", "https://ledger.example/#x"} {
		_, err := client.New(url)
		require.Error(t, err, url)
	}
	for name, option := range map[string]client.Option{
		"empty token": client.WithToken(""), "two words": client.WithToken("a b"), "line end": client.WithToken("a\n"), "not ASCII": client.WithToken("é"),
		"no key": client.WithVerifierKeys("default"), "bad key": client.WithVerifierKeys("default", "x"), "no bound": client.WithMaxResponseBytes(0),
	} {
		_, err := client.New("https://ledger.example", option)
		require.Error(t, err, name)
	}
	_, err := client.New("https://ledger.example", client.WithHTTPClient(http.DefaultClient), client.WithTLSConfig(&tls.Config{}))
	require.NoError(t, err)
	_, err = client.New("https://ledger.example", client.WithHTTPClient(&http.Client{Transport: http.DefaultTransport}), client.WithTLSConfig(&tls.Config{}))
	require.Error(t, err)
}

func TestHeaders(t *testing.T) {
	var headers collected[http.Header]
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers.add(r.Header)
		ok(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	c := connect(t, server.URL, client.WithToken("t"), client.WithUserAgent("test/1"), client.WithTLSConfig(&tls.Config{RootCAs: roots}))
	_, err := c.Ledger("default").Records.Post(t.Context(), generation("x"), &client.PostOptions{MinimizeReceipt: true})
	require.NoError(t, err)
	header := headers.all()[0]
	require.Equal(t, "Bearer t", header.Get("Authorization"))
	require.Equal(t, "test/1", header.Get("User-Agent"))
	require.Equal(t, "return=minimal", header.Get("Prefer"))
	require.Equal(t, "application/json", header.Get("Content-Type"))
	_, err = connect(t, server.URL).Ledger("default").Describe(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable, "the client must not trust the certificate")
	require.Equal(t, int32(2), connections.Load(), "the client must not try again")
}

// The client does not retry a call if only a different URL could succeed, or if the caller's
// transport rejected the response.
func TestRequestsThatAreNotRepeated(t *testing.T) {
	plain, _ := answering(t, ok)
	var handshakes atomic.Int32
	secret := httptest.NewUnstartedServer(http.NotFoundHandler())
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	defer secret.Close()
	proxy, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "<html><h1>400</h1>The plain HTTP request was sent to HTTPS port</html>") // nginx sends this response
	})
	alert, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer alert.Close()
	go func() {
		for {
			connection, err := alert.Accept()
			if err != nil {
				return
			}
			handshakes.Add(1)
			_, _ = connection.Read(make([]byte, 10))
			_, _ = connection.Write([]byte("\x15\x03\x01\x00\x02\x02\x46\n\n"))
			_ = connection.Close()
		}
	}()
	paused := func(url string, options ...client.Option) (waited bool, err error) {
		c := connect(t, url, options...)
		client.OnSleep(c, func(time.Duration) { waited = true })
		_, err = c.Ledgers.List(t.Context())
		return waited, err
	}
	for _, url := range []string{strings.Replace(plain.URL, "http:", "https:", 1), secret.URL, strings.Replace(secret.URL, "https:", "http:", 1), proxy.URL, "http://" + alert.Addr().String()} {
		waited, err := paused(url)
		require.ErrorIs(t, err, client.ErrTLSMismatch, url)
		require.False(t, waited, "%s: %v", url, err)
	}
	require.Equal(t, int32(1), handshakes.Load())
	rejecting := roundTrip(func(r *http.Request) (*http.Response, error) {
		body := io.NopCloser(iotest.ErrReader(fmt.Errorf("%w: no", client.ErrUnexpectedResponse)))
		return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
	})
	waited, err := paused("http://ledger.example", client.WithHTTPClient(&http.Client{Transport: rejecting}))
	require.ErrorIs(t, err, client.ErrUnexpectedResponse)
	require.NotErrorIs(t, err, client.ErrUnreachable)
	require.False(t, waited)
}

// If a receipt does not verify or is for a different record, the error tells the caller not to post
// again, because the posted record is durable.
func TestReceiptsAreVerified(t *testing.T) {
	s := serve(t)
	honest := connect(t, s.URL, client.WithVerifierKeys("default", s.key())).Ledger("default")
	earlier, err := honest.Records.Post(t.Context(), generation("earlier"), nil)
	require.NoError(t, err)
	earlierText, err := json.Marshal(earlier)
	require.NoError(t, err)
	state, err := honest.Records.SetState(t.Context(), earlier.Seq, wire.StateChange{State: wire.StateStale, Reason: "r"}, &client.ChangeOptions{IdempotencyKey: "k"})
	require.NoError(t, err)
	stateText, err := json.Marshal(state)
	require.NoError(t, err)

	replace := func(text []byte, r *wire.Receipt) {
		*r = wire.Receipt{}
		require.NoError(t, json.Unmarshal(text, r))
	}
	require.ErrorIs(t, connect(t, s.URL, client.WithVerifierKeys("other", s.key())).Ledger("other").VerifyReceipt(earlier), proofs.ErrFieldMismatch, "a receipt of another ledger")
	for name, test := range map[string]struct {
		change func(*wire.Receipt)
		err    error
	}{
		"signature":    {func(r *wire.Receipt) { r.Checkpoint = strings.Replace(r.Checkpoint, "\n", "\n1", 1) }, proofs.ErrSignature},
		"proof":        {func(r *wire.Receipt) { r.Inclusion.Hashes[0] = zeroHash }, proofs.ErrInclusion},
		"event hash":   {func(r *wire.Receipt) { r.EventHash = zeroHash }, proofs.ErrChainLink},
		"no proof":     {func(r *wire.Receipt) { r.Event, r.Inclusion, r.Checkpoint = nil, nil, "" }, proofs.ErrNoProof},
		"hashes":       {func(r *wire.Receipt) { r.Hashes["output_hash"] = new(zeroHash) }, proofs.ErrFieldMismatch},
		"checks":       {func(r *wire.Receipt) { r.Checks = wire.Checks{} }, proofs.ErrFieldMismatch},
		"time":         {func(r *wire.Receipt) { r.Time = "2026-01-02T03:04:05.000000Z" }, proofs.ErrFieldMismatch},
		"ledger":       {func(r *wire.Receipt) { r.Ledger = "other" }, proofs.ErrFieldMismatch},
		"other record": {func(r *wire.Receipt) { replace(earlierText, r) }, proofs.ErrFieldMismatch},
		"other kind":   {func(r *wire.Receipt) { replace(stateText, r) }, proofs.ErrFieldMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			lying := roundTrip(func(q *http.Request) (*http.Response, error) {
				response, err := http.DefaultTransport.RoundTrip(q)
				if err != nil || q.Method != http.MethodPost {
					return response, err
				}
				defer response.Body.Close()
				var receipt wire.Receipt
				require.NoError(t, json.NewDecoder(response.Body).Decode(&receipt))
				test.change(&receipt)
				text, err := json.Marshal(receipt)
				require.NoError(t, err)
				response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
				return response, nil
			})
			l := connect(t, s.URL, client.WithVerifierKeys("default", s.key()), client.WithHTTPClient(&http.Client{Transport: lying})).Ledger("default")
			receipt, err := l.Records.Post(t.Context(), generation(name), &client.PostOptions{MinimizeReceipt: true})
			unverified := (*client.ReceiptError)(nil)
			require.ErrorAs(t, err, &unverified)
			require.ErrorIs(t, err, test.err)
			require.Same(t, receipt, unverified.Receipt)
			require.ErrorContains(t, err, "do not post the record again")
			switch name {
			case "other kind":
				require.ErrorContains(t, err, "the event is of kind")
			case "other record":
				require.ErrorContains(t, err, "differs from the request's")
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// A receipt still verifies if a newer server adds members that the client does not know.
func TestNewerReceipts(t *testing.T) {
	s := serve(t)
	newer := roundTrip(func(q *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(q)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body = io.NopCloser(strings.NewReader(`{"derived_by_a_newer_server":1,` + string(body[1:])))
		}
		return response, err
	})
	l := connect(t, s.URL, client.WithVerifierKeys("default", s.key()), client.WithHTTPClient(&http.Client{Transport: newer})).Ledger("default")
	receipt, err := l.Records.Post(t.Context(), generation("x"), nil)
	require.NoError(t, err)
	require.NoError(t, l.VerifyReceipt(receipt))
	require.ErrorIs(t, connect(t, s.URL).Ledger("default").VerifyReceipt(receipt), client.ErrNoVerifierKeys)
}

func TestReceiptsOfOtherEvents(t *testing.T) {
	server, _ := answering(t, ok)
	l := connect(t, server.URL).Ledger("default")
	_, err := l.Records.Receipt(t.Context(), 1, 0)
	require.NoError(t, err)
	_, err = l.Records.Receipt(t.Context(), 2, 0)
	require.ErrorIs(t, err, client.ErrUnexpectedResponse)
	_, err = l.Records.Post(t.Context(), wire.RawRecord{Kind: "note", JSON: []byte(`{}`)}, nil)
	require.ErrorContains(t, err, "not a kind of record")
}

func TestNestedProofsAreVerified(t *testing.T) {
	s := serve(t)
	honest := connect(t, s.URL, client.WithVerifierKeys("default", s.key())).Ledger("default")
	set, err := honest.Records.Post(t.Context(), &wire.CitationSet{Subject: "s", Citations: []wire.Citation{{SourceID: "x", Text: new("t"), Weight: 1}}}, nil)
	require.NoError(t, err)
	proof, err := honest.Records.CitationProof(t.Context(), set.Seq, 0, 0)
	require.NoError(t, err)
	for name, change := range map[string]func(*wire.NestedProof){
		"other chunk": func(p *wire.NestedProof) { p.Citation.ChunkHash = "sha256:" + zeroHash },
		"other tree":  func(p *wire.NestedProof) { p.Receipt.Inclusion.Hashes[0] = zeroHash },
		"no part":     func(p *wire.NestedProof) { p.Citation = nil },
	} {
		text, err := json.Marshal(proof)
		require.NoError(t, err)
		var changed wire.NestedProof
		require.NoError(t, json.Unmarshal(text, &changed))
		change(&changed)
		text, err = json.Marshal(changed)
		require.NoError(t, err)
		server, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
		_, err = connect(t, server.URL, client.WithVerifierKeys("default", s.key())).Ledger("default").Records.CitationProof(t.Context(), set.Seq, 0, 0)
		require.Error(t, err, name)
	}
}

func TestNestedProofsOfOtherEvents(t *testing.T) {
	server, _ := answering(t, text(`{"format":"colophon-nested-proof@1","receipt":`+minimalReceipt+`}`))
	c := connect(t, server.URL)
	_, err := c.Ledger("default").Records.CitationProof(t.Context(), 1, 0, 0)
	require.NoError(t, err)
	_, err = c.Ledger("default").Records.CitationProof(t.Context(), 2, 0, 0)
	require.ErrorIs(t, err, client.ErrUnexpectedResponse)
	_, err = c.Ledger("other").Records.StageProof(t.Context(), 1, "answer", 0)
	require.ErrorIs(t, err, client.ErrUnexpectedResponse)
}

func TestTokensAreNotPrinted(t *testing.T) {
	c := connect(t, "https://ledger.example", client.WithToken("secret"))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", c, c, c, c), "secret")
}

// If a TLS server or a proxy sends a plain-text error, the client explains the errors that it recognizes,
// and never copies control characters into its message.
func TestPlainAnswers(t *testing.T) {
	secure := httptest.NewUnstartedServer(ok)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	_, err := connect(t, strings.Replace(secure.URL, "https", "http", 1)).Ledger("default").Describe(t.Context())
	require.ErrorIs(t, err, client.ErrBadRequest)
	require.ErrorContains(t, err, "400 the server speaks TLS")
	server, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "\x1b[2Jno", 400) })
	_, err = connect(t, server.URL).Ledger("default").Describe(t.Context())
	require.ErrorContains(t, err, "400 Bad Request")
}

// After a key is retired, new receipts verify only with its successors.
func TestSuccessorKeysVerify(t *testing.T) {
	s := serve(t)
	old := s.key()
	l := connect(t, s.URL, client.WithVerifierKeys("default", old)).Ledger("default")
	_, err := l.AdvanceKeyRotation(t.Context(), "rotate")
	require.NoError(t, err)
	_, err = l.Records.Post(t.Context(), generation("both"), nil)
	require.NoError(t, err)
	_, err = connect(t, s.URL).Ledger("default").AdvanceKeyRotation(t.Context(), "retire")
	require.NoError(t, err)
	_, err = l.Records.Post(t.Context(), generation("new key"), nil)
	require.ErrorIs(t, err, proofs.ErrWrongKey)
	_, err = l.Log.Checkpoint(t.Context())
	require.ErrorIs(t, err, proofs.ErrWrongKey)

	history, err := l.Log.Keys(t.Context())
	require.NoError(t, err)
	trusted, err := proofs.ParseVerifier(old)
	require.NoError(t, err)
	l = connect(t, s.URL, client.WithVerifiers("default", history.VerifiersFrom(trusted)...)).Ledger("default")
	_, err = l.Records.Post(t.Context(), generation("new key again"), nil)
	require.NoError(t, err)
}

// Content returns exactly the bytes that were posted. The client can post text that contains lone
// surrogates.
func TestContentIsReturnedByteForByte(t *testing.T) {
	l := connect(t, serve(t).URL).Ledger("default")
	record := generation("<Ana>\u2028 & \U0001F30A")
	record.Payload = json.RawMessage("{ \"q\" : \"\\u003c<\\/\",\n\t\"seed\":7, \"top_p\": 7.50e-1 }")
	receipt, err := l.Records.Post(t.Context(), record, nil)
	require.NoError(t, err)
	for name, want := range map[string]string{"payload": string(record.Payload), "output": *record.Output} {
		content, err := l.Records.Content(t.Context(), receipt.Seq, name)
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
	run := &wire.RunDAG{Inputs: &wire.RunInputs{QuestionHash: zeroHash, ContextRoot: zeroHash, ConversationHash: zeroHash, AnswerText: new("a\xed\xa0\x80\xed\xbf\xbfb"),
		AuditMode: "STRICT", VerifierMethod: "v", Sources: []wire.RunSource{}}}
	receipt, err = l.Records.Post(t.Context(), run, nil)
	require.NoError(t, err)
	require.NotEmpty(t, receipt.Hashes.Get("root"))
}

// FuzzDecode checks that decoding an arbitrary response terminates and that every decoded value can
// be encoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(minimalReceipt))
	f.Add([]byte(busyLine))
	f.Add([]byte(`{"as_of":1,"rows":[{"seq":1,"inclusion":{"leaf_index":1,"tree_size":2,"hashes":[]}}],"next":"x"}`))
	f.Add([]byte(`{"seq":0,"event_hash":"","entry":"AAAA","event":{"kind":"content_redacted","record":{"seqs":[1,[2,3]]}}}`))
	f.Add([]byte(`{"checks":{"a":{"result":"match","claimed":null}},"failure_stage":null,"receipt":{"seq":18446744073709551615}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, value := range []any{new(wire.Problem), new(wire.Receipt), new(wire.Page[wire.ListedRecord]), new(wire.EventLine), new(wire.Event),
			new(wire.ContentRedactedEvent), new(wire.NestedProof), new(wire.GroupAnswer), new(wire.ProducerAnswer)} {
			if client.Decode(text, value) != nil {
				continue
			}
			_, err := json.Marshal(value)
			require.NoError(t, err)
		}
		server := &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200 + len(text)%2*303, Header: http.Header{"Retry-After": {"0"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: q}, nil
		})}
		l := connect(t, "http://ledger.example", client.WithHTTPClient(server), client.WithVerifierKeys("default", fuzzKey)).Ledger("default")
		receipt, err := l.Records.Post(t.Context(), generation("x"), nil)
		require.Error(t, err, "%v", receipt)
		for _, err := range l.Events.All(t.Context(), 0) {
			_ = err
		}
		for _, err := range l.Records.PostBatch(t.Context(), numbered(2), nil) {
			_ = err
		}
	})
}

var fuzzKey = func() string {
	signer, err := proofs.GenerateKey().Signer("ledger.example/default")
	if err != nil {
		panic(err)
	}
	return signer.Verifier().String()
}()

// An error message is a single line, whatever the server sends, so the server cannot add lines to a
// log or control a terminal.
func TestErrorsAreOneLine(t *testing.T) {
	lie := `x\nlevel=INFO msg=\"all is well\"\r\u001b[2J\u0085\u2028`
	for _, body := range []string{`{"detail":"` + lie + `"}`, `{"title":"` + lie + `"}`, `{"errors":[{"pointer":"/` + lie + `","detail":"` + lie + `"}]}`} {
		server, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, body)
		})
		_, err := connect(t, server.URL).Ledger("default").Describe(t.Context())
		require.ErrorIs(t, err, client.ErrNotFound)
		require.Contains(t, err.Error(), `\nlevel=INFO msg="all is well"\r\x1b[2J\u0085\u2028`)
		require.NotContains(t, err.Error(), "\n")
	}
}

// FuzzProblem checks that every unsuccessful response, whether from a server or a proxy, becomes an
// error whose message is a single line.
func FuzzProblem(f *testing.F) {
	f.Add(uint16(503), "1", []byte(`{"status":503,"title":"x","detail":"y","errors":[{"pointer":"/a","detail":"b","claimed":"c"}]}`))
	f.Add(uint16(502), "Wed, 21 Oct 2015 07:28:00 GMT", []byte(`<html>`))
	f.Add(uint16(301), "-1", []byte("a\nb"))
	c, err := client.New("https://ledger.example")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, status uint16, wait string, body []byte) {
		e := client.Problem(c, "GET /", &http.Response{StatusCode: int(status), Header: http.Header{"Retry-After": {wait}}}, body)
		require.Equal(t, int(status), e.Status)
		require.NotContains(t, e.Error(), "\n")
		require.GreaterOrEqual(t, e.RetryAfter, time.Duration(0))
	})
}
