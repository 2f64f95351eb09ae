package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is the longest time of a request while the server is alive.
const patience = 30 * time.Second

// client sends the requests of a history, from several goroutines.
type client struct {
	history *history
	url     string // URL of the ledger
	http    *http.Client
	// mayHang means that the server is allowed to leave clients without an answer.
	mayHang bool
}

func newClient(h *history, server string) *client {
	return &client{history: h, url: server + "/v1/ledgers/default",
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: patience}}
}

// close closes idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// load lets a number of writers send a number of requests each, or until ctx is done. It does
// not interrupt a request in progress.
func (c *client) load(ctx context.Context, writers, each int) {
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for n := 0; n < each && ctx.Err() == nil; n++ {
				c.ask(ctx)
			}
		})
	}
	group.Wait()
}

// ask sends a request of any kind. Most of them write.
func (c *client) ask(ctx context.Context) {
	switch n := c.history.below(10); {
	case n < 6:
		a := c.history.draw()
		if !c.post(ctx, a) && c.history.chance(2) && ctx.Err() == nil {
			c.post(ctx, a) // like real clients; a record without a key can then be in the log twice
		}
	case n < 8:
		size := 1 + c.history.below(8)
		if c.history.chance(40) {
			size = 100
		}
		c.batch(ctx, c.history.records(size))
	case n < 9:
		c.read(ctx)
	default:
		c.requestWithoutEvent(ctx)
	}
}

// requestWithoutEvent sends a request that writes no event: it changes the visibility of the
// log, or makes a dry run of an erasure.
func (c *client) requestWithoutEvent(ctx context.Context) {
	method, path, body := http.MethodPut, "/visibility", fmt.Sprintf(`{"log":%q}`, []string{"public", "private"}[c.history.below(2)])
	if of := c.history.some(); of != nil && c.history.chance(2) {
		method, path, body = http.MethodPost, "/redactions", fmt.Sprintf(`{"seqs":[%d],"reason":"to see what it does"}`, of.seq)
	}
	if status, answer, ok := c.do(ctx, method, path, []byte(body)); ok && status >= 400 && status < 500 {
		c.history.broken("%s %s %s: %d: %s", method, path, body, status, answer)
	}
}

// do sends a request and reads the answer. ok is false if the answer is incomplete.
func (c *client) do(ctx context.Context, method, path string, body []byte, headers ...string) (status int, answer []byte, ok bool) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.history.broken("create a request for %s: %w", path, err)
		return 0, nil, false
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.noteTimeout(method, path, err)
		return 0, nil, false
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		c.noteTimeout(method, path, err)
		return 0, nil, false
	}
	return response.StatusCode, answer, true
}

// noteTimeout records a timeout. The server may be gone, but must not leave a client waiting.
func (c *client) noteTimeout(method, path string, err error) {
	if timeout, is := err.(interface{ Timeout() bool }); is && timeout.Timeout() && !c.mayHang {
		c.history.broken("%s %s had no answer within %s: %w", method, path, patience, err)
	}
}

// post sends an attempt, and reports whether the answer says that the attempt is in the log.
func (c *client) post(ctx context.Context, a *attempt) bool {
	var headers []string
	if a.key != "" {
		headers = append(headers, "Idempotency-Key", a.key)
	}
	if c.history.chance(4) {
		headers = append(headers, "Prefer", "return=minimal")
	}
	c.history.sent(a)
	status, answer, ok := c.do(ctx, a.method, a.path, a.body, headers...)
	if !ok {
		return false
	}
	return c.judge(a, status, answer)
}

// judge records the outcome of an attempt.
func (c *client) judge(a *attempt, status int, answer []byte) bool {
	switch {
	case len(a.targets) > 0 && status == http.StatusOK:
		var changes struct{ Receipts []json.RawMessage }
		if err := json.Unmarshal(answer, &changes); err != nil {
			c.history.broken("attempt %d was answered: %w: %s", a.id, err, answer)
		}
		for _, receipt := range changes.Receipts {
			c.history.answered(a, receipt)
		}
		return true
	case status == http.StatusOK || status == http.StatusCreated:
		c.history.answered(a, answer)
		return true
	case status == http.StatusServiceUnavailable && bytes.Contains(answer, []byte("nothing was written")):
		c.history.refused(a)
	case status < 500:
		c.history.broken("attempt %d, %s %s: %d: %s", a.id, a.method, a.path, status, answer)
	}
	return false
}

// batch sends several attempts in one request.
func (c *client) batch(ctx context.Context, list []*attempt) {
	var body bytes.Buffer
	for _, a := range list {
		fmt.Fprintf(&body, `{"kind":%q,`, a.kind)
		if a.key != "" {
			fmt.Fprintf(&body, `"idempotency_key":%q,`, a.key)
		}
		fmt.Fprintf(&body, `"record":%s}`+"\n", a.body)
		c.history.sent(a)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, c.url+"/batch", &body)
	if err != nil {
		c.history.broken("create a batch: %w", err)
		return
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if c.history.chance(2) {
		request.Header.Set("Prefer", "return=representation")
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.noteTimeout(http.MethodPost, "/batch", err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(response.Body)
		for _, a := range list {
			c.judge(a, response.StatusCode, answer)
		}
		return
	}
	c.lines(list, response.Body)
}

// lines records the complete answers to the lines of a batch.
func (c *client) lines(list []*attempt, answers io.Reader) {
	lines := bufio.NewReaderSize(answers, 1<<20)
	for _, a := range list {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			c.noteTimeout(http.MethodPost, "/batch", err)
			return
		}
		var problem struct{ Status int }
		if err := json.Unmarshal(line, &problem); err != nil {
			c.history.broken("line of a batch, attempt %d: %w: %s", a.id, err, line)
			return
		}
		status := problem.Status
		if status == 0 {
			status = http.StatusCreated
		}
		c.judge(a, status, line)
	}
}

// read requests something that was acknowledged earlier. The request is allowed to fail, but
// an answer must agree with the acknowledgement.
func (c *client) read(ctx context.Context) {
	of := c.history.some()
	if of == nil {
		return
	}
	paths := []string{"/records/{seq}", "/records/{seq}/receipt", "/records/{seq}/content/" + contentName(of.attempt),
		"/records?limit=20&label:step=1", "/proofs/inclusion?seq={seq}", "/drift/groups?by=model", "/events?from={seq}&limit=5",
		"/log/checkpoint", "/log/tile/0/000", "/paths/project-0", "/citation-sets/conflicts", "/records?kind=note&topic=topic-1", "/run-dags?audit_mode=STRICT",
		"/records?flag=inconsistent", "/records?incomplete=seed"}
	path := strings.ReplaceAll(paths[c.history.below(len(paths))], "{seq}", strconv.FormatUint(of.seq, 10))
	status, answer, ok := c.do(ctx, http.MethodGet, path, nil)
	if !ok || status >= 500 {
		return
	}
	content := strings.Contains(path, "/content/")
	switch {
	case content && status == http.StatusOK:
		c.checkContent(of.attempt, answer)
	case content && (status == http.StatusGone || !of.attempt.isRecord()):
	case status == http.StatusOK && strings.HasSuffix(path, "/receipt"):
		c.history.answered(of.attempt, answer)
	case status == http.StatusOK, status == http.StatusNotFound && !strings.HasPrefix(path, "/records/"):
	default:
		c.history.broken("GET %s: %d: %s", path, status, answer)
	}
}

// contentName names a piece of content that records of this kind have.
func contentName(a *attempt) string {
	switch a.path {
	case "/ipc-records":
		return "output"
	case "/run-dags":
		if bytes.Contains(a.body, []byte(`"inputs":`)) {
			return "inputs"
		}
		return "answer_text"
	case "/citation-sets":
		return "citations%2F0%2Ftext"
	}
	return "content"
}

// checkContent requires that the content is byte for byte what was posted.
func (c *client) checkContent(a *attempt, answer []byte) {
	for _, posted := range a.contents {
		if bytes.Equal(posted, answer) {
			return
		}
	}
	c.history.broken("content of attempt %d is not what was posted: %.200q", a.id, answer)
}
