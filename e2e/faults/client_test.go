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

// patience is the maximum time that a request may take while the server is running.
const patience = 30 * time.Second

// client sends requests from several goroutines and records the outcomes in a history.
type client struct {
	history *history
	url     string // URL of the ledger
	http    *http.Client
	// mayHang permits the server to leave requests unanswered.
	mayHang bool
}

func newClient(h *history, server string) *client {
	return &client{history: h, url: server + "/v1/ledgers/default",
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: patience}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// load starts several writers that each send the given number of requests, and waits for them. If
// ctx is done, the writers finish their current requests and stop.
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

// ask sends a random request of any kind. Most of these requests are writes.
func (c *client) ask(ctx context.Context) {
	switch n := c.history.randomBelow(10); {
	case n < 6:
		a := c.history.draw()
		if !c.post(ctx, a) && c.history.oneIn(2) && ctx.Err() == nil {
			c.post(ctx, a) // retry as real clients do; without an idempotency key, this can append the record twice
		}
	case n < 8:
		size := 1 + c.history.randomBelow(8)
		if c.history.oneIn(40) {
			size = 100
		}
		c.batch(ctx, c.history.records(size))
	case n < 9:
		c.read(ctx)
	default:
		c.requestWithoutEvent(ctx)
	}
}

// requestWithoutEvent sends a request that does not write an event: a change to the log's
// visibility or a dry run of a redaction.
func (c *client) requestWithoutEvent(ctx context.Context) {
	method, path, body := http.MethodPut, "/visibility", fmt.Sprintf(`{"log":%q}`, []string{"public", "private"}[c.history.randomBelow(2)])
	if of := c.history.randomAck(); of != nil && c.history.oneIn(2) {
		method, path, body = http.MethodPost, "/redactions", fmt.Sprintf(`{"seqs":[%d],"reason":"to see what it does"}`, of.seq)
	}
	if status, answer, ok := c.do(ctx, method, path, []byte(body)); ok && status >= 400 && status < 500 {
		c.history.broken("%s %s %s: %d: %s", method, path, body, status, answer)
	}
}

// do sends a request and reads the response. ok is false if no complete response arrives.
func (c *client) do(ctx context.Context, method, path string, body []byte, headers ...string) (status int, answer []byte, ok bool) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.history.broken("creating a request for %s: %w", path, err)
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

// noteTimeout records a timeout as an error. The server may exit, but must not leave a request
// unanswered.
func (c *client) noteTimeout(method, path string, err error) {
	if timeout, is := err.(interface{ Timeout() bool }); is && timeout.Timeout() && !c.mayHang {
		c.history.broken("%s %s had no answer within %s: %w", method, path, patience, err)
	}
}

// post sends an attempt, and reports whether the response states that the attempt is in the log.
func (c *client) post(ctx context.Context, a *attempt) bool {
	var headers []string
	if a.key != "" {
		headers = append(headers, "Idempotency-Key", a.key)
	}
	if c.history.oneIn(4) {
		headers = append(headers, "Prefer", "return=minimal")
	}
	c.history.sent(a)
	status, answer, ok := c.do(ctx, a.method, a.path, a.body, headers...)
	if !ok {
		return false
	}
	return c.judge(a, status, answer)
}

// judge records the outcome of an attempt, and reports whether the attempt is in the log.
func (c *client) judge(a *attempt, status int, answer []byte) bool {
	switch {
	case len(a.targets) > 0 && status == http.StatusOK:
		var changes struct{ Receipts []json.RawMessage }
		if err := json.Unmarshal(answer, &changes); err != nil {
			c.history.broken("parsing the response to attempt %d: %w: %s", a.id, err, answer)
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

// batch sends several attempts as one batch and records the outcome of each attempt whose line of
// the response arrives.
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
		c.history.broken("creating a batch: %w", err)
		return
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	if c.history.oneIn(2) {
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

// lines records the outcomes in the complete lines of the response to a batch.
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
			c.history.broken("parsing the line of attempt %d in the response to a batch: %w: %s", a.id, err, line)
			return
		}
		status := problem.Status
		if status == 0 {
			status = http.StatusCreated
		}
		c.judge(a, status, line)
	}
}

// read requests data that was acknowledged earlier. The request may fail, but a successful response
// must agree with the acknowledgement.
func (c *client) read(ctx context.Context) {
	of := c.history.randomAck()
	if of == nil {
		return
	}
	paths := []string{"/records/{seq}", "/records/{seq}/receipt", "/records/{seq}/content/" + contentName(of.attempt),
		"/records?limit=20&label:step=1", "/proofs/inclusion?seq={seq}", "/drift/groups?by=model", "/events?from={seq}&limit=5",
		"/log/checkpoint", "/log/tile/0/000", "/paths/project-0", "/citation-sets/conflicts", "/records?kind=note&topic=topic-1", "/run-dags?audit_mode=STRICT",
		"/records?flag=inconsistent", "/records?incomplete=seed"}
	path := strings.ReplaceAll(paths[c.history.randomBelow(len(paths))], "{seq}", strconv.FormatUint(of.seq, 10))
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

// contentName returns the name of a piece of content in the attempt's record.
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

// checkContent requires that answer is identical to one of the posted pieces of content.
func (c *client) checkContent(a *attempt, answer []byte) {
	for _, posted := range a.contents {
		if bytes.Equal(posted, answer) {
			return
		}
	}
	c.history.broken("content of attempt %d is not what was posted: %.200q", a.id, answer)
}
