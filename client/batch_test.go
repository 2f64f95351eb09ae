package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/client"
	"colophon/client/wire"
	"colophon/proofs"
)

// numbered yields n lines, each with a different output.
func numbered(n int) iter.Seq[client.BatchLine] {
	return func(yield func(client.BatchLine) bool) {
		for i := range n {
			if !yield(client.BatchLine{Record: generation(fmt.Sprint("Text ", i))}) {
				return
			}
		}
	}
}

// outputs requires that each of the n outputs from numbered is recorded in the ledger exactly once.
func outputs(t *testing.T, l *client.Ledger, n int) {
	t.Helper()
	events := 0
	seen := make(map[string]bool)
	for line, err := range l.Events.All(t.Context(), 1) {
		require.NoError(t, err)
		event, err := wire.ParseEvent(line.Event)
		require.NoError(t, err)
		var record wire.IPCRecordEvent
		require.NoError(t, json.Unmarshal(event.Record, &record))
		seen[record.Hashes.Get("output_hash")] = true
		events++
	}
	require.Equal(t, n, events)
	require.Len(t, seen, n)
}

func TestBatchAnswersEachLineInOrder(t *testing.T) {
	for name, o := range map[string]*client.BatchOptions{
		"default": nil, "gzip": {Gzip: true, IncludeDerivedMembers: true}, "many bodies": {MaxPendingLines: 7, RequestFullReceipts: true}, "one line": {MaxPendingBytes: 1, Gzip: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			l := connect(t, s.URL, client.WithVerifierKeys("default", s.key())).Ledger("default")
			raw := "{\n \"payload\" : {\"seed\" : 1},\r\n \"output\": \"raw\", \"model\": \"m\", \"temperature\": 0.5, \"max_tokens\": 1 }"
			odd := map[int]client.BatchLine{
				3:   {Record: &wire.CitationSet{Subject: "s", Citations: []wire.Citation{{SourceID: "x", Text: new("t"), Weight: 2}}}},
				5:   {Record: generation("\xff")},
				8:   {Record: wire.RawRecord{Kind: wire.KindIPCRecord, JSON: json.RawMessage(raw)}, IdempotencyKey: "k"},
				9:   {Record: wire.RawRecord{Kind: wire.KindIPCRecord, JSON: json.RawMessage(`{`)}},
				199: {Record: generation("\xed\xa0\x80")},
			}
			lines := func(yield func(client.BatchLine) bool) {
				i := 0
				for line := range numbered(200) {
					if replaced, ok := odd[i]; ok {
						line = replaced
					}
					if i++; !yield(line) {
						return
					}
				}
			}
			n := 0
			for result, err := range l.Records.PostBatch(t.Context(), lines, o) {
				require.NoError(t, err)
				require.Equal(t, n, result.Index)
				switch n {
				case 3, 199:
					require.ErrorIs(t, result.Err, client.ErrUnprocessable)
					require.ErrorContains(t, result.Err, fmt.Sprintf("line %d of a batch: 422 /record/", n))
				case 5:
					require.ErrorIs(t, result.Err, wire.ErrInvalidText)
				case 9:
					require.ErrorContains(t, result.Err, "not a single JSON value")
				default:
					require.NoError(t, result.Err)
					require.NoError(t, l.VerifyReceipt(result.Receipt))
					if text := odd[n].Record; text == nil {
						record := result.Line.Record.(*wire.IPCRecord)
						require.Equal(t, fmt.Sprint("Text ", n), *record.Output)
					}
				}
				n++
			}
			require.Equal(t, 200, n)
			outputs(t, l, 196)
		})
	}
}

// PostBatch sends each line as soon as the caller yields it, so a line can depend on the result of the
// previous one.
func TestBatchSendsEachLineAtOnce(t *testing.T) {
	for _, gzip := range []bool{false, true} {
		l := connect(t, serve(t).URL).Ledger("default")
		turn := make(chan bool, 1)
		turn <- true
		lines := func(yield func(client.BatchLine) bool) {
			for line := range numbered(20) {
				<-turn
				if *line.Record.(*wire.IPCRecord).Output == "Text 0" {
					line.Record.(*wire.IPCRecord).Model = "\xff" // cannot be encoded, so it is not sent
				}
				if !yield(line) {
					return
				}
			}
		}
		n := 0
		for _, err := range l.Records.PostBatch(t.Context(), lines, &client.BatchOptions{Gzip: gzip}) {
			require.NoError(t, err)
			n++
			turn <- true
		}
		require.Equal(t, 20, n)
	}
}

// A line with RawJSON is sent unchanged, and with KeepRawReceipts its receipt is returned
// unchanged.
func TestBatchOfTexts(t *testing.T) {
	s := serve(t)
	texts := []string{
		`{"kind":"ipc_record", "record":{"run_id":"a","output":"x","payload":{},"model":"m","temperature":1,"max_tokens":1}}`,
		"{\"kind\":\"ipc_record\",\r\n\"record\":{\"output\":\"x\",\"payload\":{},\"model\":\"m\",\"temperature\":1,\"max_tokens\":1},\"idempotency_key\":\"k\"}",
		`{"kind":"ipc_record"`,
	}
	lines := func(yield func(client.BatchLine) bool) {
		for _, text := range texts {
			if !yield(client.BatchLine{RawJSON: []byte(text)}) {
				return
			}
		}
	}
	for _, verified := range []bool{false, true} {
		var options []client.Option
		if verified {
			options = append(options, client.WithVerifierKeys("default", s.key()))
		}
		n := 0
		for result, err := range connect(t, s.URL, options...).Ledger("default").Records.PostBatch(t.Context(), lines, &client.BatchOptions{KeepRawReceipts: true}) {
			require.NoError(t, err)
			require.Equal(t, texts[n], string(result.Line.RawJSON))
			if n++; n == 3 {
				require.ErrorIs(t, result.Err, client.ErrBadRequest)
				continue
			}
			require.NoError(t, result.Err)
			require.Equal(t, verified, result.Receipt != nil)
			if !verified {
				require.Contains(t, string(result.RawReceipt), fmt.Sprintf(`"seq":%d,`, n))
			}
		}
		require.Equal(t, 3, n)
	}
}

// PostBatch sends all lines in one request if the server answers lines while it reads the request.
func TestBatchUsesOneRequest(t *testing.T) {
	s := serve(t)
	var requests atomic.Int32
	counting := roundTrip(func(r *http.Request) (*http.Response, error) {
		requests.Add(1)
		return http.DefaultTransport.RoundTrip(r)
	})
	l := connect(t, s.URL, client.WithHTTPClient(&http.Client{Transport: counting})).Ledger("default")
	turn := make(chan bool, 1)
	turn <- true
	lines := func(yield func(client.BatchLine) bool) {
		first := true
		for line := range numbered(100) {
			if first {
				<-turn
			} else if *line.Record.(*wire.IPCRecord).Output == "Text 1" {
				<-turn // wait until the first answer has arrived
			}
			first = false
			if !yield(line) {
				return
			}
		}
	}
	n := 0
	for result, err := range l.Records.PostBatch(t.Context(), lines, &client.BatchOptions{MaxPendingLines: 3}) {
		require.NoError(t, err)
		require.NoError(t, result.Err)
		if n++; n == 1 {
			turn <- true
		}
	}
	require.Equal(t, 100, n)
	require.Equal(t, int32(1), requests.Load())
}

// PostBatch works through a proxy that reads a whole request before it forwards it.
func TestBatchWorksThroughBufferingProxies(t *testing.T) {
	s := serve(t)
	var requests atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		q, _ := http.NewRequest(r.Method, s.URL+r.URL.String(), bytes.NewReader(body))
		q.Header = r.Header.Clone()
		response, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			return
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		_, _ = w.Write(answer)
	}))
	defer proxy.Close()
	n := 0
	for result, err := range connect(t, proxy.URL).Ledger("default").Records.PostBatch(t.Context(), numbered(95), &client.BatchOptions{MaxPendingLines: 10}) {
		require.NoError(t, err)
		require.NoError(t, result.Err)
		n++
	}
	require.Equal(t, 95, n)
	require.Equal(t, int32(10), requests.Load())
}

// MaxPendingLines limits the lines that are sent but not answered, even if the caller reads the results
// slowly.
func TestBatchIsBounded(t *testing.T) {
	var taken atomic.Int64
	lines := func(yield func(client.BatchLine) bool) {
		for line := range numbered(2000) {
			if taken.Add(1); !yield(line) {
				return
			}
		}
	}
	n := int64(0)
	for _, err := range connect(t, serve(t).URL).Ledger("default").Records.PostBatch(t.Context(), lines, &client.BatchOptions{MaxPendingLines: 20}) {
		require.NoError(t, err)
		n++
		require.LessOrEqual(t, taken.Load()-n, int64(20+2)) // 2: one line is being encoded, and one is being queued
	}
	require.Equal(t, int64(2000), n)
}

func TestBatchStopsWithItsLoop(t *testing.T) {
	l := connect(t, serve(t).URL).Ledger("default")
	ended := make(chan bool)
	lines := func(yield func(client.BatchLine) bool) {
		defer close(ended)
		for yield(client.BatchLine{Record: generation("again and again")}) {
		}
	}
	for range l.Records.PostBatch(t.Context(), lines, nil) {
		break
	}
	<-ended

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended = make(chan bool)
	var last error
	for _, last = range l.Records.PostBatch(ctx, lines, nil) {
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
	<-ended
}

// answering starts a server that passes each request to the next handler. The last handler gets all
// further requests.
func answering(t *testing.T, handlers ...http.HandlerFunc) (server *httptest.Server, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(requests.Add(1)) - 1
		handlers[min(n, len(handlers)-1)](w, r)
	}))
	t.Cleanup(server.Close)
	return server, requests
}

func problem(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"about:blank","title":"T","status":%d,"detail":"D"}`, status)
	}
}

// text returns a handler that answers every request with the given lines.
func text(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, line := range lines {
			_, _ = io.WriteString(w, line+"\n")
		}
	}
}

const (
	minimalReceipt = `{"ledger":"default","seq":1,"kind":"ipc_record","time":"2026-01-02T03:04:05.000000Z","event_hash":"` + zeroHash + `","prev_event_hash":"` + zeroHash +
		`","leaf_hash":"` + zeroHash + `","hashes":{},"checks":{}}`
	busyLine = `{"type":"about:blank","title":"T","status":503,"detail":"busy","line":2}`
)

// The time during which the input or the caller pauses does not count toward the timeout of
// PostBatch.
func TestBatchWaitsForItsInputAndItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 10 * time.Minute
		server, requests := answersLines(10)
		l := connect(t, "http://ledger.example", client.WithHTTPClient(server), client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1})).Ledger("default")
		lines := func(yield func(client.BatchLine) bool) {
			for i := range 6 {
				if i == 1 {
					time.Sleep(pause)
				}
				if !yield(client.BatchLine{Record: generation(fmt.Sprint("paused ", i))}) {
					return
				}
			}
		}
		results := 0
		for result, err := range l.Records.PostBatch(t.Context(), lines, nil) {
			require.NoError(t, err)
			require.NoError(t, result.Err)
			if results++; results == 2 {
				time.Sleep(pause)
			}
		}
		require.Equal(t, 6, results)
		require.EqualValues(t, 1, requests.Load())
	})
}

func TestEmptyBatchSendsNothing(t *testing.T) {
	server, requests := answering(t, problem(500))
	for range connect(t, server.URL).Ledger("default").Records.PostBatch(t.Context(), numbered(0), nil) {
		t.Fatal("an empty batch has a result")
	}
	require.Zero(t, requests.Load())
}

// If PostBatch sends a line again, it uses the same idempotency key.
func TestBatchKeepsKeys(t *testing.T) {
	var seen collected[string]
	keep := func(answer http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen.add(string(body))
			answer(w, r)
		}
	}
	server, _ := answering(t, keep(problem(503)), keep(text(minimalReceipt, minimalReceipt)))
	for _, err := range connect(t, server.URL).Ledger("default").Records.PostBatch(t.Context(), numbered(2), nil) {
		require.NoError(t, err)
	}
	bodies := seen.all()
	require.Len(t, bodies, 2)
	require.Equal(t, bodies[0], bodies[1])
	var line wire.BatchLine
	require.NoError(t, json.NewDecoder(strings.NewReader(bodies[0])).Decode(&line))
	require.Len(t, line.IdempotencyKey, 26)
}

func TestBatchVerifiesReceipts(t *testing.T) {
	s := serve(t)
	other := serve(t)
	for result, err := range connect(t, s.URL, client.WithVerifierKeys("default", other.key())).Ledger("default").Records.PostBatch(t.Context(), numbered(3), nil) {
		require.NoError(t, err)
		unverified := (*client.ReceiptError)(nil)
		require.ErrorAs(t, result.Err, &unverified)
		require.ErrorIs(t, result.Err, proofs.ErrWrongKey)
		require.NotNil(t, result.Receipt)
	}
	server, _ := answering(t, text(minimalReceipt))
	for result, err := range connect(t, server.URL, client.WithVerifierKeys("default", s.key())).Ledger("default").Records.PostBatch(t.Context(), numbered(1), nil) {
		require.NoError(t, err)
		require.ErrorIs(t, result.Err, proofs.ErrNoProof)
	}
}

// For a line in the format of another system, the server chooses the kind and the default key.
func TestBatchVerifiesReceiptsOfForeignRecords(t *testing.T) {
	s := serve(t)
	texts := []string{
		`{"format":"citations","subject":"s","run_id":"r","record":{"all_citations":[{"source_id":"a","text":"one","weight":0.5}]}}`,
		`{"format":"citations","subject":"s","record":{"all_citations":[{"source_id":"a","text":"two","weight":0.5}]},"idempotency_key":"k"}`,
	}
	post := func(texts []string, options ...client.Option) (errs []error) {
		lines := func(yield func(client.BatchLine) bool) {
			for _, text := range texts {
				_ = yield(client.BatchLine{RawJSON: []byte(text)})
			}
		}
		for result, err := range connect(t, s.URL, append(options, client.WithVerifierKeys("default", s.key()))...).Ledger("default").Records.PostBatch(t.Context(), lines, nil) {
			require.NoError(t, err)
			errs = append(errs, result.Err)
		}
		return errs
	}
	require.Equal(t, []error{nil, nil}, post(texts))
	// The server answers with the receipt of the line that it received, which is another one.
	swapping := roundTrip(func(q *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), `"k"`, `"other"`)))
		return http.DefaultTransport.RoundTrip(q)
	})
	require.ErrorIs(t, post(texts[1:], client.WithHTTPClient(&http.Client{Transport: swapping}))[0], proofs.ErrFieldMismatch)
}

// With WithoutIdempotencyKeys, PostBatch does not resend lines that the server refused as busy.
func TestBatchWithoutKeysReportsBusyLines(t *testing.T) {
	server, requests := answering(t, text(minimalReceipt, busyLine, minimalReceipt))
	var errs []error
	l := connect(t, server.URL, client.WithoutIdempotencyKeys()).Ledger("default")
	for result, err := range l.Records.PostBatch(t.Context(), numbered(3), nil) {
		require.NoError(t, err)
		errs = append(errs, result.Err)
	}
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], client.ErrUnavailable)
	require.NoError(t, errs[2])
	require.Equal(t, int32(1), requests.Load())
}

// PostBatch continues after the server has ended a request because the input paused.
func TestBatchSurvivesPauses(t *testing.T) {
	server, requests := answering(t, text(minimalReceipt, strings.Replace(busyLine, "503", "408", 1)))
	l := connect(t, server.URL, client.WithRetryPolicy(client.RetryPolicy{MaxAttempts: 1})).Ledger("default")
	for result, err := range l.Records.PostBatch(t.Context(), numbered(3), &client.BatchOptions{MaxPendingLines: 1}) {
		require.NoError(t, err)
		require.NoError(t, result.Err)
	}
	require.Equal(t, int32(3), requests.Load())
}

// A batch can contain state changes, notes, and validations, and their receipts verify.
func TestBatchOfVerbs(t *testing.T) {
	s := serve(t)
	l := connect(t, s.URL, client.WithVerifierKeys("default", s.key())).Ledger("default")
	first, err := l.Records.Post(t.Context(), generation("Text."), nil)
	require.NoError(t, err)
	origin := wire.ActionOrigin{OriginalActor: "ana", Timestamp: "2025-11-30T12:00:00Z"}
	lines := []client.BatchLine{
		{Record: wire.StateChangeLine{RecordSeq: first.Seq, StateChange: wire.StateChange{State: wire.StateStale, Reason: "r", ActionOrigin: origin}}},
		{Record: wire.NoteLine{RecordSeq: first.Seq, Note: wire.Note{Topic: "review", ActionOrigin: origin}}},
		{Record: wire.NoteLine{RecordSeq: 99, Note: wire.Note{Topic: "review"}}},
		{Record: wire.PathFingerprint{Project: "p", Route: []string{"Start"}}},
		{Record: wire.ValidationLine{Project: "p", PathID: "a6122a65", PathValidation: wire.PathValidation{Validated: true, ActionOrigin: origin}}},
	}
	var kinds []wire.Kind
	for result, err := range l.Records.PostBatch(t.Context(), slices.Values(lines), nil) {
		require.NoError(t, err)
		if result.Index == 2 {
			require.ErrorIs(t, result.Err, client.ErrNotFound)
			continue
		}
		require.NoError(t, result.Err)
		kinds = append(kinds, result.Receipt.Kind)
	}
	require.Equal(t, []wire.Kind{wire.KindRecordStateChanged, wire.KindNote, wire.KindPathFingerprint, wire.KindPathValidated}, kinds)
	row, err := l.Records.Get(t.Context(), first.Seq, &client.GetRecordOptions{QueryOptions: client.QueryOptions{AfterSeq: first.Seq + 2}})
	require.NoError(t, err)
	require.Equal(t, wire.StateStale, row.State)
}
