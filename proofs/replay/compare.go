package replay

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay/reference"
)

// Limits on answers. An answer that exceeds maxAnswer or maxValues is not compared.
const (
	maxAnswer    = 16 << 20 // maximum length in bytes; a server ends a page after 4 MiB of events
	maxValues    = 400_000  // maximum number of JSON values and member names
	largeAnswers = 2        // maximum number of large answers in memory at once
)

// source answers questions. It is either the audited server or the reference. It is safe for
// concurrent use.
type source interface {
	// page returns one page of the answer to q. The error is fetch.ErrTooLong if the page is longer
	// than maxAnswer or has more than maxValues values.
	page(ctx context.Context, q question, p pageRequest) (*answerPage, error)
}

// comparer asks the server and the reference the same questions and compares their answers. Calls
// to ask may run concurrently; everything else must be used by one goroutine.
type comparer struct {
	client    *fetch.Client // client of the audited server
	server    source
	reference referenceServer
	size      uint64 // tree size for which the reference answers; the server's log is at least this large
	walk      *monitor.Walk
	copy      *reference.Log
	origin    string
	keys      []*proofs.Verifier

	memory     *fetch.AnswerLimiter
	smallPages atomic.Bool // whether the server has rejected a request for more than defaultRows rows
	tooLong    int         // number of answers that were too long
	unsigned   uint64      // number of answers for which the server could not sign the checkpoint
	refusal    string      // the server's message in the last unsigned answer

	mu sync.Mutex // guards the fields below
	// redactions maps the seq of a record to the redaction that the server claims. The copy of the
	// log may not contain the redacting event yet.
	redactions map[uint64]claimedRedaction
	largest    uint64   // largest size of the log that an answer claimed
	largestIn  question // question whose answer claimed the largest size
}

func newComparer(client *fetch.Client, r referenceServer, size uint64) *comparer {
	c := &comparer{client: client, reference: r, size: size, memory: fetch.NewAnswerLimiter(largeAnswers), redactions: make(map[uint64]claimedRedaction)}
	c.server = auditedServer{c}
	return c
}

// comparison is the outcome of one question.
type comparison struct {
	rows    uint64
	finding *monitor.Finding // nil if the answers are equal or were not compared
	err     error            // why the answers could not be compared
	// needsGrowth means that the reference must index more of the log before the answers can be compared.
	// In that case, page is the server's answer, or nil if the question must be asked again.
	needsGrowth bool
	page        *answerPage
	tooLong     bool // whether the answer exceeded maxAnswer or maxValues
	// unsigned is the server's error message if it cannot sign the checkpoint for an older size.
	unsigned string
}

// ask asks the server and the reference a question and compares all pages of their answers.
func (c *comparer) ask(ctx context.Context, q question) comparison {
	ctx, share := c.memory.WithSlot(ctx)
	defer share.Release()
	page, err := c.first(ctx, q)
	if err != nil {
		return failed(q, err)
	}
	if c.isLater(q, page) {
		if share.InUse() || q.atHead {
			page = nil
		}
		return comparison{needsGrowth: true, page: page}
	}
	result := c.compare(ctx, q, page, false)
	if result.finding != nil && page.status != http.StatusOK && q.asOf == 0 {
		return comparison{needsGrowth: true} // the server may have answered as of a different size than the reference
	}
	return result
}

// askAll asks the questions, at most parallel of them at the same time. It calls the function each
// with the number of a question, starting at 1, and the question's outcome. The calls are in the
// order of the questions and end when each returns false. No question is in progress when askAll
// returns, so the caller can then close the reference.
func (c *comparer) askAll(ctx context.Context, questions []question, parallel int, each func(int, comparison) bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan chan comparison, parallel-1)
	asking.Go(func() {
		defer close(results)
		for _, q := range questions {
			result := make(chan comparison, 1)
			select {
			case results <- result:
			case <-ctx.Done():
				return
			}
			asking.Go(func() { result <- c.ask(ctx, q) })
		}
	})
	done := 0
	for result := range results {
		done++
		if !each(done, <-result) {
			return
		}
	}
}

// first requests the first page of the server's answer.
func (c *comparer) first(ctx context.Context, q question) (*answerPage, error) {
	return c.request(ctx, c.server, q, pageRequest{size: q.asOf, limit: q.limit})
}

// isLater reports whether the first page of an answer shows that the reference must grow before the
// answer can be compared.
func (c *comparer) isLater(q question, page *answerPage) bool {
	switch {
	case page.status != http.StatusOK || q.form.lines || q.form == eventForm:
		return false
	case q.atHead:
		return page.size != c.size
	}
	return page.size > c.size || q.asOf == 0 && page.size < c.size
}

// maxTries is the maximum number of times that askAgain asks a question. It asks again, for
// example, if an answer is for a smaller tree size than the server has reported before.
const maxTries = 3

// askAgain repeats a question whose answer was not for the same tree size as the reference. It
// advances the reference to the size of the new answer. No other question may be in progress.
func (c *comparer) askAgain(ctx context.Context, q question) (result comparison) {
	ctx, share := c.memory.WithSlot(ctx)
	defer share.Release()
	for range maxTries {
		page, err := c.first(ctx, q)
		if err != nil {
			return failed(q, err)
		}
		before := c.size
		if page.status == http.StatusOK {
			err = c.grow(ctx, page.size)
		} else {
			err = c.growToHead(ctx)
		}
		if err != nil {
			return failed(q, err)
		}
		if c.isLater(q, page) {
			result = comparison{finding: findingOf(q, "", "the response is for a smaller tree size than the server has already reported", "at least "+decimal(c.size), decimal(page.size))}
			continue
		}
		result = c.compare(ctx, q, page, true)
		if result.finding == nil || page.status == http.StatusOK || c.size == before {
			return result
		}
	}
	return result
}

// grow makes the reference answer for at least the given tree size. It returns a *badAnswer if the
// log is smaller than size.
func (c *comparer) grow(ctx context.Context, size uint64) error {
	if size <= c.size {
		return nil
	}
	if size > c.copy.AddedCount() {
		if err := c.catchUp(ctx); err != nil {
			return err
		}
	}
	if size > c.copy.AddedCount() {
		return &badAnswer{"", "the size in the response is larger than the size of the log", "at most " + decimal(c.copy.AddedCount()), decimal(size)}
	}
	return c.show(ctx, size)
}

// growToHead makes the reference answer as of the log's current size.
func (c *comparer) growToHead(ctx context.Context) error {
	if err := c.catchUp(ctx); err != nil {
		return err
	}
	if c.copy.AddedCount() <= c.size {
		return nil
	}
	return c.show(ctx, c.copy.AddedCount())
}

func (c *comparer) catchUp(ctx context.Context) error {
	err := c.walk.CatchUp(ctx)
	c.keys = c.walk.Keys()
	return err
}

func (c *comparer) show(ctx context.Context, size uint64) error {
	err := c.reference.AdvanceTo(ctx, size)
	if err == nil {
		c.size = size
	}
	return err
}

// compare compares the server's answer with the reference's. got is the first page of the server's
// answer; compare requests the pages that continue its lists. If mayGrow is true, the reference may
// grow when a later page is as of a larger size.
func (c *comparer) compare(ctx context.Context, q question, got *answerPage, mayGrow bool) (result comparison) {
	if got.readOnly {
		return comparison{unsigned: got.problem}
	}
	if q.form == documentForm {
		return c.compareDocument(ctx, q, got)
	}
	if q.atHead && len(q.lists) > 0 && got.status == http.StatusOK {
		return c.compareRanking(ctx, q, got, mayGrow)
	}
	expected, err := c.expect(ctx, q, got, "")
	if err != nil {
		return comparison{err: err}
	}
	if f := c.comparePages(q, expected, got); f != nil || got.status != http.StatusOK {
		return comparison{finding: f}
	}
	for _, list := range q.lists {
		for _, member := range list.members {
			n, finding, err := c.compareList(ctx, q, list, member, expected, got)
			result.rows += n
			if err != nil {
				return failed(q, err)
			}
			if finding != nil {
				result.finding = finding
				return result
			}
		}
	}
	return result
}

// expect asks the reference for the page that a correct server would have returned instead of got.
func (c *comparer) expect(ctx context.Context, q question, got *answerPage, position string) (*answerPage, error) {
	p := pageRequest{size: got.size, limit: got.limit, cursor: "cursor", position: position}
	if got.status != http.StatusOK {
		p.size = q.asOf
	}
	if q.atHead {
		p.size = 0
	}
	expected, err := c.request(ctx, c.reference, q, p)
	if err != nil {
		err = fmt.Errorf("querying the local copy of the log: %s: %w", q, err)
	}
	return expected, err
}

// comparePages compares everything in two pages except their lists.
func (c *comparer) comparePages(q question, expected, got *answerPage) *monitor.Finding {
	if expected.status != got.status {
		return findingAt(q, got, "", "the response has an unexpected status", expected.statusText(), got.statusText())
	}
	for _, name := range answerHeaders {
		if a, b := headerValue(expected.header, name), headerValue(got.header, name); a != b {
			return findingAt(q, got, name, "the header has an unexpected value", a, b)
		}
	}
	switch {
	case got.status != http.StatusOK:
		return nil
	case q.form.lines:
		return compareLines(q, expected, got)
	case q.form.text:
		return c.compareProofs(q, expected, got)
	}
	if member, a, b, differ := c.difference(q, expected, got); differ {
		return findingAt(q, got, member, "the value is not the expected one", string(a), string(b))
	}
	return nil
}

// answerHeaders lists the response headers that the audit compares.
var answerHeaders = [...]string{"Content-Type", "Link"}

// headerValue returns the value of the named header. It drops the parameters of a content type,
// which have no meaning for JSON.
func headerValue(h http.Header, name string) string {
	value := strings.Join(h.Values(name), ", ")
	if media, _, err := mime.ParseMediaType(value); name == "Content-Type" && err == nil {
		return media
	}
	return value
}

// failed returns the outcome of a question whose requests failed with err. The outcome is a finding
// if the server's answer caused the error.
func failed(q question, err error) comparison {
	var bad *badAnswer
	switch {
	case errors.As(err, &bad):
		return comparison{finding: findingOf(q, bad.row, bad.message, bad.expected, bad.got)}
	case errors.Is(err, fetch.ErrTooLong) || errors.Is(err, fetch.ErrMalformed):
		return comparison{finding: findingOf(q, "", err.Error(), "", ""), tooLong: errors.Is(err, fetch.ErrTooLong)}
	}
	return comparison{err: fmt.Errorf("%s: %w", q, err)}
}

// badAnswer is the error for an incorrect answer. Its fields are those of the resulting finding.
type badAnswer struct{ row, message, expected, got string }

// Error implements error.
func (b *badAnswer) Error() string { return b.message }

// findingOf returns a finding about the answer to a question as a whole.
func findingOf(q question, row, message, expected, got string) *monitor.Finding {
	return findingAt(q, &answerPage{size: q.asOf}, row, message, expected, got)
}

// findingAt returns a finding about a page. It truncates expected and got to 600 characters each.
func findingAt(q question, page *answerPage, row, message, expected, got string) *monitor.Finding {
	const most = 600
	query, at := q.String(), pageRequest{limit: q.limit}
	switch {
	case page.size > 0:
		query += " as of " + decimal(page.size)
	default:
		query += " at the head"
	}
	at.size = q.asOf
	if asked := q.parameters(at); asked != "" {
		query += " (asked: ?" + asked + ")"
	}
	return &monitor.Finding{Kind: monitor.DamageKindAnswer, Query: query, Row: row, Message: message,
		Expected: fmt.Sprintf("%.*s", most, expected), Got: fmt.Sprintf("%.*s", most, got)}
}
