package monitor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"colophon/internal/cli"
	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// Comparer asks the server and the copy of the log the same, and compares. What is not
// of ask alone belongs to one goroutine.
type Comparer struct {
	server, copied *Fetcher
	Size           uint64 // of the copy: the server has shown that it has as much
	keys           []*proofs.Verifier
	copyKey        *proofs.Verifier // of the copy's own checkpoints
	ledger, origin string
	entry          func(seq uint64) ([]byte, error)
	rootAt         func(size uint64) (proofs.Hash, error)
	redactions     map[uint64]uint64 // by which event, as the log has it
	// reach has the copy grow to a size, or to all that is signed by now for 0. The
	// comparer's size and copied follow.
	reach func(ctx context.Context, size uint64) error

	memory    *semaphore.Weighted // shares for large answers
	ShortPage atomic.Bool         // the server does not take mostRows
	tooMuch   int                 // answers that were longer than one can be

	mu       sync.Mutex // guards what follows
	Redacted map[uint64]RedactionSaid
	Largest  uint64 // size that the server said the log has
	sizedBy  Question
}

// RedactionSaid is which event has redacted a record, as an answer says: the copy of
// the log may not have it yet.
type RedactionSaid struct {
	by uint64
	q  Question
}

func NewComparer(server, copied *Fetcher, size uint64) *Comparer {
	return &Comparer{server: server, copied: copied, Size: size, memory: semaphore.NewWeighted(largeAnswers), Redacted: make(map[uint64]RedactionSaid)}
}

// ComparedAnswer is what came of a question.
type ComparedAnswer struct {
	rows    uint64
	Finding *Finding
	Err     error
	// Later: the answer cannot be compared with the copy as it is. page is that answer,
	// nil where it has to be asked for again.
	Later bool
	page  *AnswerPage
	// tooMuch: it was longer than an answer can be.
	tooMuch bool
}

// Ask asks a question and compares the answers to their ends. The error says why that
// was not possible.
func (c *Comparer) Ask(ctx context.Context, q Question) ComparedAnswer {
	ctx, share := withShare(ctx, c.memory)
	defer share.release()
	page, err := c.First(ctx, q)
	if err != nil {
		return c.failed(q, err)
	}
	if c.isLater(q, page) {
		if share.taken || q.atHead {
			page = nil
		}
		return ComparedAnswer{Later: true, page: page}
	}
	answer := c.compare(ctx, q, page, false)
	if answer.Finding != nil && page.Status != http.StatusOK && q.AsOf == 0 {
		return ComparedAnswer{Later: true} // it may be of another size than the copy
	}
	return answer
}

// First is the first page that the server answers.
func (c *Comparer) First(ctx context.Context, q Question) (*AnswerPage, error) {
	return c.fetch(ctx, c.server, q, PagePlace{Size: q.AsOf, Limit: q.Limit})
}

// isLater reports whether the copy has to be of another size for an answer.
func (c *Comparer) isLater(q Question, page *AnswerPage) bool {
	switch {
	case page.Status != http.StatusOK || q.Form.Lines || q.Form == ofEvent:
		return false
	case q.atHead:
		return page.size != c.Size
	}
	return page.size > c.Size || q.AsOf == 0 && page.size < c.Size
}

// mostTries is how often a question is asked again whose answer is of a smaller size than
// the server had.
const mostTries = 3

// Settle asks a question again whose answer was later, and has the copy grow to the size
// of the answer. Nothing else is asked meanwhile.
func (c *Comparer) Settle(ctx context.Context, q Question) (answer ComparedAnswer) {
	ctx, share := withShare(ctx, c.memory)
	defer share.release()
	for range mostTries {
		page, err := c.First(ctx, q)
		if err != nil {
			return c.failed(q, err)
		}
		before := c.Size
		if page.Status == http.StatusOK {
			err = c.grow(ctx, page.size)
		} else {
			err = c.reach(ctx, 0)
		}
		if err != nil {
			return c.failed(q, err)
		}
		if c.isLater(q, page) {
			answer = ComparedAnswer{Finding: c.finding(q, "", "the answer is of a size that the server was beyond before", "at least "+cli.Decimal(c.Size), cli.Decimal(page.size))}
			continue
		}
		answer = c.compare(ctx, q, page, true)
		if answer.Finding == nil || page.Status == http.StatusOK || c.Size == before {
			return answer
		}
	}
	return answer
}

// grow has the copy grow to the size of an answer, if that is larger.
func (c *Comparer) grow(ctx context.Context, size uint64) error {
	if size <= c.Size {
		return nil
	}
	return c.reach(ctx, size)
}

// compare compares an answer with that of the copy, to the end of its lists. mayGrow: the
// copy may grow with the answer's pages.
func (c *Comparer) compare(ctx context.Context, q Question, got *AnswerPage, mayGrow bool) (answer ComparedAnswer) {
	if q.Form == OfDocument {
		return c.compareDocument(q, got)
	}
	if q.atHead && len(q.Lists) > 0 && got.Status == http.StatusOK {
		return c.compareRanking(ctx, q, got, mayGrow)
	}
	expected, err := c.copyOf(ctx, q, got, "")
	if err != nil {
		return ComparedAnswer{Err: err}
	}
	if f := c.comparePages(q, expected, got); f != nil || got.Status != http.StatusOK {
		return ComparedAnswer{Finding: f}
	}
	for _, list := range q.Lists {
		for _, member := range list.Members {
			n, finding, err := c.compareList(ctx, q, list, member, expected, got)
			answer.rows += n
			if err != nil {
				return c.failed(q, err)
			}
			if finding != nil {
				answer.Finding = finding
				return answer
			}
		}
	}
	return answer
}

// copyOf is what the copy answers in the place of an answer of the server.
func (c *Comparer) copyOf(ctx context.Context, q Question, got *AnswerPage, position string) (*AnswerPage, error) {
	p := PagePlace{Size: got.size, Limit: got.limit, cursor: "cursor", position: position}
	if got.Status != http.StatusOK {
		p.Size = q.AsOf
	}
	if q.atHead {
		p.Size = 0
	}
	expected, err := c.fetch(ctx, c.copied, q, p)
	if err != nil {
		err = fmt.Errorf("asking the copy of the log: %s: %w", q, err)
	}
	return expected, err
}

// comparePages compares two answers but for their lists.
func (c *Comparer) comparePages(q Question, expected, got *AnswerPage) *Finding {
	if expected.Status != got.Status {
		return c.findingAt(q, got, "", "the answer has another status", expected.says(), got.says())
	}
	for _, name := range answerHeaders {
		if a, b := headerValue(expected.header, name), headerValue(got.header, name); a != b {
			return c.findingAt(q, got, name, "the header differs", a, b)
		}
	}
	switch {
	case got.Status != http.StatusOK:
		return nil
	case q.Form.Lines:
		return c.compareLines(q, expected, got)
	case q.Form.Text:
		return c.compareProofs(q, expected, got)
	}
	if member, a, b, differ := c.differs(q, expected, got); differ {
		return c.findingAt(q, got, member, "it differs", string(a), string(b))
	}
	return nil
}

// answerHeaders are the headers that are part of an answer.
var answerHeaders = [...]string{"Content-Type", "Link"}

// headerValue is a header's values; a content type's without its parameters, which say
// nothing of JSON.
func headerValue(h http.Header, name string) string {
	value := strings.Join(h.Values(name), ", ")
	if media, _, err := mime.ParseMediaType(value); name == "Content-Type" && err == nil {
		return media
	}
	return value
}

// failed is a question that the server does not answer in a way that can be read.
func (c *Comparer) failed(q Question, err error) ComparedAnswer {
	var bad *badAnswer
	switch {
	case errors.As(err, &bad):
		return ComparedAnswer{Finding: c.finding(q, bad.row, bad.message, bad.expected, bad.got)}
	case errors.Is(err, ErrTooMuch) || errors.Is(err, errAnswer):
		return ComparedAnswer{Finding: c.finding(q, "", err.Error(), "", ""), tooMuch: errors.Is(err, ErrTooMuch)}
	}
	return ComparedAnswer{Err: fmt.Errorf("%s: %w", q, err)}
}

// badAnswer is an answer that is wrong whatever the copy has.
type badAnswer struct{ row, message, expected, got string }

// Error implements error.
func (b *badAnswer) Error() string { return b.message }

func (c *Comparer) finding(q Question, row, message, expected, got string) *Finding {
	return c.findingAt(q, &AnswerPage{size: q.AsOf}, row, message, expected, got)
}

func (c *Comparer) findingAt(q Question, page *AnswerPage, row, message, expected, got string) *Finding {
	const most = 600
	query, at := q.String(), PagePlace{Limit: q.Limit}
	switch {
	case page.size > 0:
		query += " as of " + cli.Decimal(page.size)
	default:
		query += " at the head"
	}
	if at.Size = q.AsOf; q.At(at) != q.Path {
		_, asked, _ := strings.Cut(q.At(at), "?")
		query += " (asked: ?" + asked + ")"
	}
	return &Finding{Kind: KindAnswer, Query: query, Row: row, Message: message,
		Expected: fmt.Sprintf("%.*s", most, expected), Got: fmt.Sprintf("%.*s", most, got)}
}

// errAnswer: an answer is not of the form that it has to have.
var errAnswer = errors.New("the answer is malformed")

// AnswerPage is a page of an answer. It owns its memory.
type AnswerPage struct {
	Status   int
	why      string
	header   http.Header
	Body     []byte
	Document pyjson.Document // of JSON
	size     uint64          // that it is as of; 0 unless the status is 200
	known    uint64          // events that the server was known to have when it was asked
	limit    int             // rows that were asked for
}

// says is the status and what is wrong, where it is no success.
func (p *AnswerPage) says() string {
	if p.Status == http.StatusOK {
		return strconv.Itoa(p.Status)
	}
	return p.why
}

// root is what an answer says of the ledger.
func (c *Comparer) root(q Question, p *AnswerPage) pyjson.Value {
	root := p.Document.Root()
	if !q.Form.Server {
		return root
	}
	found := pyjson.Value{}
	for row := range root.Member("ledgers").Elements() {
		if string(row.Member("name").Text()) == c.ledger && found.Kind() == pyjson.Absent {
			found = row
		}
	}
	return found
}

// fetch fetches a page, with fewer rows where the page is too long. A status other than
// 200 is one of the answers, unless it says that the client may not ask.
func (c *Comparer) fetch(ctx context.Context, from *Fetcher, q Question, p PagePlace) (*AnswerPage, error) {
	if from == c.server && c.ShortPage.Load() && p.Limit > defaultRows {
		p.Limit = 0
	}
	for {
		page, err := c.fetchPage(ctx, from, q, p)
		switch {
		case errors.Is(err, ErrTooMuch) && q.Paged() && p.Limit != 1:
			p.Limit = max(1, cmp.Or(p.Limit, defaultRows)/50)
			continue
		case err == nil && page.Status == http.StatusBadRequest && q.Paged() && p.Limit > 0:
			if p.Limit > defaultRows && from == c.server {
				c.ShortPage.Store(true)
			}
			p.Limit = 0
			continue
		}
		return page, err
	}
}

// defaultRows are those of a page where the request does not say.
const defaultRows = 100

func (c *Comparer) fetchPage(ctx context.Context, from *Fetcher, q Question, p PagePlace) (*AnswerPage, error) {
	path := from.path + q.At(p)
	if q.Form.Server {
		path = q.At(p)
	}
	known := c.Size
	answer, err := from.ask(ctx, path, q.Form.accept, MaxAuditJSON)
	if err != nil {
		return nil, err
	}
	page := &AnswerPage{Status: answer.Status, why: answer.why, header: answer.header, Body: answer.Body, known: known, limit: p.Limit}
	switch answer.Status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, cli.Exitf(cli.ExitFailed, "the answers cannot be audited: %s", answer.why)
	default:
		return page, nil
	}
	if !q.Form.Lines && !q.Form.Text {
		if err := parseAnswer(&page.Document, answer.Body); err != nil {
			return nil, err
		}
	}
	if page.size, err = c.sizeOf(q, page, from == c.server); err != nil {
		return nil, err
	}
	switch {
	case p.position == "" && p.Size > 0 && q.Form.size != "" && page.size != p.Size:
		return nil, fmt.Errorf("%w: it is not as of size %d", errAnswer, p.Size)
	case p.Limit > 0 && rowsOf(q, page) > p.Limit:
		return nil, fmt.Errorf("%w: its page has %d rows of %d that were asked for", errAnswer, rowsOf(q, page), p.Limit)
	}
	return page, nil
}

// rowsOf is how many rows the longest list of a page has.
func rowsOf(q Question, p *AnswerPage) (most int) {
	for _, list := range q.Lists {
		for _, member := range list.Members {
			if rows := p.Document.Root().Member(member); rows.Kind() == pyjson.Array && q.Paged() {
				most = max(most, rows.Len())
			}
		}
	}
	return most
}

// parseAnswer reads an answer in JSON, of a bounded number of values.
func parseAnswer(d *pyjson.Document, body []byte) error {
	err := d.ParseWithin(body, MaxAuditValues)
	var syntax *pyjson.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Msg, "more than"):
		return fmt.Errorf("%w: more than %d values", ErrTooMuch, MaxAuditValues)
	case err != nil:
		return fmt.Errorf("%w: %w", errAnswer, err)
	case d.Root().Kind() != pyjson.Object:
		return fmt.Errorf("%w: it is no object", errAnswer)
	}
	return nil
}

// sizeOf is the size that an answer says it is as of. noted: what it says is held against
// the log at the end.
func (c *Comparer) sizeOf(q Question, p *AnswerPage, noted bool) (size uint64, err error) {
	switch {
	case q.Form.Text:
		var proof *proofs.TlogProof
		if proof, err = proofs.ParseTlogProof(p.Body); err != nil {
			return 0, fmt.Errorf("%w: %w", errAnswer, err)
		}
		checkpoint, err := proofs.OpenCheckpoint(proof.Checkpoint, append(slices.Clone(c.keys), c.copyKey)...)
		if err != nil {
			return 0, fmt.Errorf("%w: its checkpoint: %w", errAnswer, err)
		}
		size = checkpoint.Size
	case q.Form.says == nil:
		size, err = strconv.ParseUint(strings.Join(p.header.Values(AsOfHeader), ","), 10, 64)
	default:
		v := c.root(q, p)
		for _, name := range q.Form.says {
			v = v.Member(name)
		}
		size, err = strconv.ParseUint(string(v.Raw()), 10, 64)
	}
	if err != nil || size == 0 {
		return 0, fmt.Errorf("%w: it does not say as of which size it is", errAnswer)
	}
	if noted {
		c.saysSize(q, size)
		if q.Form == ofStatistics {
			head, err := strconv.ParseUint(string(p.Document.Root().Member("tree_size").Raw()), 10, 64)
			if err != nil || head < size {
				return 0, &badAnswer{"tree_size", "the log is smaller than its index", "at least " + cli.Decimal(size), string(p.Document.Root().Member("tree_size").Raw())}
			}
			c.saysSize(q, head)
		}
	}
	return size, nil
}

// AsOfHeader says the size where the body does not.
const AsOfHeader = "Colophon-As-Of"

// saysSize notes that the log has a size, as the server says.
func (c *Comparer) saysSize(q Question, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.Largest {
		c.Largest, c.sizedBy = size, q
	}
}

// differs finds the first member of two answers that differs, but for lists, and where
// they go on.
func (c *Comparer) differs(q Question, expected, got *AnswerPage) (member string, a, b []byte, differ bool) {
	if q.Form.Server && c.ledgerListed(got) != 1 {
		return "ledgers", []byte("one row of the ledger"), fmt.Appendf(nil, "%d", c.ledgerListed(got)), true
	}
	x, y := c.root(q, expected), c.root(q, got)
	if c.sameButRedaction(q, x, y, got.known) {
		return "", nil, nil, false
	}
	for _, side := range [...]pyjson.Value{x, y} {
		for name := range side.Members() {
			member = string(name.Text())
			if slices.ContainsFunc(q.Lists, func(l answerList) bool { return member == l.Next || slices.Contains(l.Members, member) }) {
				continue
			}
			a, b := x.Member(member), y.Member(member)
			if !c.sameMember(q, got.size, member, a, b) {
				return member, canonical(a), canonical(b), true
			}
		}
	}
	return "", nil, nil, false
}

// ledgerListed is how many rows of a list of ledgers are of the ledger; 0 if the list has
// anything beside.
func (c *Comparer) ledgerListed(p *AnswerPage) (n int) {
	for name := range p.Document.Root().Members() {
		if string(name.Text()) != "ledgers" {
			return 0
		}
	}
	for row := range p.Document.Root().Member("ledgers").Elements() {
		if row.Kind() != pyjson.Object {
			return 0
		}
		if string(row.Member("name").Text()) == c.ledger {
			n++
		}
	}
	return n
}

// sameMember compares a member of an answer with that of the copy's answer.
func (c *Comparer) sameMember(q Question, size uint64, name string, expected, got pyjson.Value) bool {
	switch {
	case slices.Contains(q.Form.settings, name):
		return c.saysSetting(q, name, got)
	case name == "checkpoint" && q.Form == OfTwoSizes:
		return c.signsSecond(got, size)
	case name == "checkpoint":
		return c.sameCheckpoint(expected, got)
	case name == "receipt" && expected.Kind() == pyjson.Object:
		return c.sameCheckpoint(expected.Member("checkpoint"), got.Member("checkpoint")) &&
			bytes.Equal(without(expected, "checkpoint"), without(got, "checkpoint"))
	}
	return bytes.Equal(canonical(expected), canonical(got))
}

// saysSetting reports whether a member is what it has to be whose value the copy of the log
// has not.
func (c *Comparer) saysSetting(_ Question, name string, got pyjson.Value) bool {
	text := string(got.Text())
	switch name {
	case "origin":
		return text == c.origin
	case "verifier_key":
		return slices.ContainsFunc(c.keys, func(k *proofs.Verifier) bool { return k.String() == text })
	case "created":
		_, ok := record.ParseTime(got.Text())
		return ok
	case "frozen":
		return got.Kind() == pyjson.True || got.Kind() == pyjson.False
	case "on_mismatch":
		return text == ledger.AcceptMismatch || text == ledger.RejectMismatch
	case "log":
		return text == ledger.PublicLog || text == ledger.PrivateLog
	}
	return got.Kind() != pyjson.Absent
}

// sameCheckpoint reports whether the log has signed the size and the root that the copy
// has signed itself.
func (c *Comparer) sameCheckpoint(expected, got pyjson.Value) bool {
	if expected.Kind() != pyjson.String || got.Kind() != pyjson.String {
		return expected.Kind() == got.Kind()
	}
	return c.sameNote(expected.Text(), got.Text())
}

// signsSecond reports whether the checkpoint of a consistency proof is that of its second
// size. An answer has one only where that is the head of the log, which may have grown.
func (c *Comparer) signsSecond(got pyjson.Value, size uint64) bool {
	if got.Kind() != pyjson.String {
		return got.Kind() == pyjson.Absent
	}
	checkpoint, err := proofs.OpenCheckpoint(got.Text(), c.keys...)
	root, rootErr := c.rootAt(size)
	return err == nil && rootErr == nil && checkpoint.Size == size && checkpoint.Root == root && checkpoint.Origin == c.origin
}

func (c *Comparer) sameNote(expected, got []byte) bool {
	a, err := proofs.OpenCheckpoint(expected, c.copyKey)
	b, errGot := proofs.OpenCheckpoint(got, c.keys...)
	return err == nil && errGot == nil && a.Size == b.Size && a.Root == b.Root && b.Origin == c.origin
}

// compareProofs compares two .tlog-proof texts.
func (c *Comparer) compareProofs(q Question, expected, got *AnswerPage) *Finding {
	a, err := proofs.ParseTlogProof(expected.Body)
	b, errGot := proofs.ParseTlogProof(got.Body)
	if err != nil || errGot != nil || !bytes.Equal(a.Extra, b.Extra) || a.Index != b.Index || !slices.Equal(a.Hashes, b.Hashes) || !c.sameNote(a.Checkpoint, b.Checkpoint) {
		return c.findingAt(q, got, "", "the proof differs", string(expected.Body), string(got.Body))
	}
	return nil
}

// compareLines compares two answers line by line.
func (c *Comparer) compareLines(q Question, expected, got *AnswerPage) *Finding {
	a, b := bytes.SplitAfter(expected.Body, []byte("\n")), bytes.SplitAfter(got.Body, []byte("\n"))
	for i := range max(len(a), len(b)) {
		var x, y []byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if !bytes.Equal(x, y) {
			return c.findingAt(q, got, fmt.Sprintf("line %d", i+1), "the line differs", string(x), string(y))
		}
	}
	return nil
}

func canonical(v pyjson.Value) []byte { return v.AppendCanonical(nil, pyjson.Compact) }

// without is an object in canonical form without some members.
func without(v pyjson.Value, names ...string) []byte {
	if v.Kind() != pyjson.Object {
		return canonical(v)
	}
	text := []byte{'{'}
	for name, value := range v.Members() {
		if !slices.Contains(names, string(name.Text())) {
			text = append(append(append(append(text, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	var d pyjson.Document
	if d.Parse(append(bytes.TrimSuffix(text, []byte{','}), '}')) != nil {
		return canonical(v)
	}
	return canonical(d.Root())
}

// compareList compares two lists row by row, and finds the first difference.
func (c *Comparer) compareList(ctx context.Context, q Question, list answerList, member string, expected, got *AnswerPage) (n uint64, finding *Finding, err error) {
	nextExpected, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, expected, nil))
	defer stop()
	nextGot, stop := iter.Pull2(c.rows(ctx, c.server, q, list, member, got, expected))
	defer stop()
	for ; ; n++ {
		b, errB, moreB := nextGot()
		if errors.Is(errB, errEnoughPages) {
			return n, nil, nil
		}
		a, errA, moreA := nextExpected()
		switch {
		case errA != nil:
			return n, nil, fmt.Errorf("asking the copy of the log: %w", errA)
		case errB != nil:
			return n, nil, errB
		case !moreA && !moreB:
			return n, nil, nil
		case moreA && moreB && (bytes.Equal(a, b) || c.sameRowButRedaction(q, a, b, got.known)):
			continue
		}
		a2, _, _ := nextExpected()
		b2, _, _ := nextGot()
		return n, c.differing(q, got, fmt.Sprintf("%s[%d]", member, n), [2][]byte{a, a2}, [2][]byte{b, b2}), nil
	}
}

// differing says how two lists differ, by the first rows that do and those behind.
func (c *Comparer) differing(q Question, page *AnswerPage, place string, expected, got [2][]byte) *Finding {
	message := "the row differs"
	a, b := expected[0], got[0]
	switch {
	case b == nil, a != nil && !sameRow(a, b) && (bytes.Equal(expected[1], b) || expected[1] != nil && sameRow(expected[1], b)):
		message, b = "a row is left out", nil
	case a == nil, !sameRow(a, b) && (bytes.Equal(got[1], a) || got[1] != nil && sameRow(got[1], a)):
		message, a = "a row is added", nil
	}
	f := c.findingAt(q, page, place, message, string(a), string(b))
	if row := a; row != nil || b != nil {
		if row == nil {
			row = b
		}
		f.Seq = seqOf(row)
	}
	return f
}

// rowNames are the members that name a row.
var rowNames = [...]string{"seq", "kind", "by", "value", "output_hash", "chunk_hash", "source_id", "id", "from", "project", "path_id", "build", "stage",
	"failure_stage", "audit_mode", "shape"}

// sameRow reports whether two rows are about the same.
func sameRow(a, b []byte) bool {
	var x, y pyjson.Document
	if x.Parse(a) != nil || y.Parse(b) != nil {
		return false
	}
	for _, name := range rowNames {
		if !bytes.Equal(x.Root().Member(name).Raw(), y.Root().Member(name).Raw()) {
			return false
		}
	}
	return true
}

// seqOf is the seq of a row; nil if it has none.
func seqOf(row []byte) *uint64 {
	var r struct {
		Seq *uint64 `json:"seq"`
	}
	if json.Unmarshal(row, &r) != nil {
		return nil
	}
	return r.Seq
}

// emptyPages is how many pages in a row may have no row: each has looked at thousands
// of keys.
func (c *Comparer) emptyPages() uint64 { return 1000 + c.Size/100 }

// errEnoughPages ends a list of which no more is compared.
var errEnoughPages = errors.New("enough pages")

// rows yields the rows of a list in canonical form, page by page, to its end. Of the server
// it is given the copy's first page: whatever else is on a later page has to be as there;
// and there may be an end of the pages that are compared, with errEnoughPages.
func (c *Comparer) rows(ctx context.Context, from *Fetcher, q Question, list answerList, member string, page, expected *AnswerPage) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for empty, read := uint64(0), 1; ; read++ {
			root := page.Document.Root()
			if rows := root.Member(member); rows.Kind() != pyjson.Array {
				yield(nil, fmt.Errorf("%w: its %s is no list", errAnswer, member))
				return
			}
			empty++
			for row := range root.Member(member).Elements() {
				empty = 0
				if !yield(canonical(row), nil) {
					return
				}
			}
			next := root.Member(list.Next)
			switch {
			case next.Kind() == pyjson.Absent || list.Next == "":
				return
			case next.Kind() != pyjson.String || len(next.Text()) == 0:
				yield(nil, fmt.Errorf("%w: its %s is no cursor", errAnswer, list.Next))
				return
			case empty > c.emptyPages():
				yield(nil, fmt.Errorf("%w: it has %d pages without a row one after the other, and no end", errAnswer, empty))
				return
			case read == q.pages && expected != nil:
				yield(nil, errEnoughPages)
				return
			}
			var err error
			page, err = c.next(ctx, from, q, list, page, string(next.Text()))
			if err == nil && expected != nil {
				err = c.compareBeside(ctx, q, list, expected, page)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// compareBeside compares what is on a later page beside the list that goes on there with
// the copy's first page. The error is a *badAnswer where it differs.
func (c *Comparer) compareBeside(ctx context.Context, q Question, list answerList, expected, got *AnswerPage) error {
	f := c.comparePages(q, expected, got)
	for _, other := range q.Lists {
		if f != nil || other.Next == list.Next {
			continue
		}
		for _, member := range other.Members {
			n, behind, differs, err := c.compareRanked(ctx, q, other, member, expected, got, 0)
			if f = differs; err == nil && f == nil {
				f, err = c.endsBefore(ctx, q, other, member, n, got, behind)
			}
			if err != nil {
				return err
			}
		}
	}
	if f != nil {
		return &badAnswer{f.Row, f.Message, f.Expected, f.Got}
	}
	return nil
}

// endsBefore checks that a page of the server ends before a row, the nth: that it has no
// cursor where there is none, and one that leads there otherwise.
func (c *Comparer) endsBefore(ctx context.Context, q Question, list answerList, member string, n uint64, got *AnswerPage, behind []byte) (*Finding, error) {
	next := got.Document.Root().Member(list.Next)
	switch {
	case next.Kind() != pyjson.Absent:
		return c.leadsTo(ctx, q, list, member, got, string(next.Text()), behind)
	case behind != nil:
		return c.findingAt(q, got, fmt.Sprintf("%s[%d]", member, n), "a row is left out", string(behind), ""), nil
	}
	return nil, nil
}

// next is the page that a cursor leads to.
func (c *Comparer) next(ctx context.Context, from *Fetcher, q Question, list answerList, page *AnswerPage, position string) (*AnswerPage, error) {
	limit := mostRows
	if from == c.server { // by chance, and each time the same
		sum := sha256.Sum256([]byte(q.String() + "\x00" + position))
		limit = anyLimit(binary.BigEndian.Uint64(sum[:]), 1)
	}
	next, err := c.fetch(ctx, from, q, PagePlace{Limit: limit, cursor: list.cursor, position: position})
	switch {
	case err == nil && next.Status != http.StatusOK:
		err = fmt.Errorf("%w: its next page: %s", errAnswer, next.why)
	case err == nil && next.size != page.size && !q.atHead:
		err = fmt.Errorf("%w: its next page is as of size %d, not %d", errAnswer, next.size, page.size)
	}
	return next, err
}

// compareRanking compares a list that is answered for the head of each request: page by
// page, with the copy at the size of that.
func (c *Comparer) compareRanking(ctx context.Context, q Question, got *AnswerPage, mayGrow bool) (answer ComparedAnswer) {
	list, member := q.Lists[0], q.Lists[0].Members[0]
	position := ""
	for pages := 1; ; pages++ {
		expected, err := c.copyOf(ctx, q, got, position)
		if err != nil {
			return ComparedAnswer{Err: err}
		}
		if f := c.comparePages(q, expected, got); f != nil {
			return ComparedAnswer{Finding: f}
		}
		n, behind, f, err := c.compareRanked(ctx, q, list, member, expected, got, answer.rows)
		answer.rows += n
		if err != nil {
			return c.failed(q, err)
		}
		if f != nil {
			return ComparedAnswer{Finding: f}
		}
		if f, err := c.endsBefore(ctx, q, list, member, answer.rows, got, behind); f != nil || err != nil {
			if err != nil {
				return c.failed(q, err)
			}
			return ComparedAnswer{Finding: f}
		}
		if got.Document.Root().Member(list.Next).Kind() == pyjson.Absent {
			return answer
		}
		position = string(got.Document.Root().Member(list.Next).Text())
		if pages == q.pages {
			return answer
		}
		if got, err = c.next(ctx, c.server, q, list, got, position); err != nil {
			return c.failed(q, err)
		}
		if got.size != c.Size && !mayGrow {
			return ComparedAnswer{Later: true}
		}
		if err := c.grow(ctx, got.size); err != nil {
			return c.failed(q, err)
		}
		if got.size != c.Size {
			return ComparedAnswer{Finding: c.findingAt(q, got, "", "the answer is of a size that the server was beyond before", "at least "+cli.Decimal(c.Size), cli.Decimal(got.size))}
		}
	}
}

// compareRanked compares the rows of a page; behind is the row that comes behind them, nil
// if none does. A page may end early.
func (c *Comparer) compareRanked(ctx context.Context, q Question, list answerList, member string, expected, got *AnswerPage, before uint64) (n uint64, behind []byte, f *Finding, err error) {
	next, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, expected, nil))
	defer stop()
	rows := got.Document.Root().Member(member)
	if rows.Kind() != pyjson.Array {
		return 0, nil, nil, fmt.Errorf("%w: its %s is no list", errAnswer, member)
	}
	var given [][]byte
	for row := range rows.Elements() {
		given = append(given, canonical(row))
	}
	for i, row := range given {
		a, err, more := next()
		if err != nil {
			return n, nil, nil, err
		}
		if !more || !bytes.Equal(a, row) {
			a2, _, _ := next()
			var b2 []byte
			if i+1 < len(given) {
				b2 = given[i+1]
			}
			return n, nil, c.differing(q, got, fmt.Sprintf("%s[%d]", member, before+n), [2][]byte{a, a2}, [2][]byte{row, b2}), nil
		}
		n++
	}
	behind, err, _ = next()
	return n, behind, nil, err
}

// leadsTo checks that a cursor of the server leads to the row that comes next.
func (c *Comparer) leadsTo(ctx context.Context, q Question, list answerList, member string, got *AnswerPage, position string, behind []byte) (*Finding, error) {
	page, err := c.fetch(ctx, c.copied, q, PagePlace{Limit: got.limit, cursor: list.cursor, position: position})
	if err != nil {
		return nil, fmt.Errorf("asking the copy of the log: %w", err)
	}
	if page.Status != http.StatusOK {
		return c.findingAt(q, got, list.Next, "the cursor leads nowhere", "", position), nil
	}
	next, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, page, nil))
	defer stop()
	row, err, _ := next()
	if err != nil || bytes.Equal(row, behind) {
		return nil, err
	}
	return c.findingAt(q, got, list.Next, "the cursor leads to another row", string(behind), string(row)), nil
}

// redactedMember is the one member of answers that is not as of a size, but live (spec: Index
// and as_of): the event that has redacted the record. Links to its content go with it.
const redactedMember = "redacted_by"

// sameRowButRedaction is sameButRedaction of rows.
func (c *Comparer) sameRowButRedaction(q Question, expected, got []byte, known uint64) bool {
	var x, y pyjson.Document
	return x.Parse(expected) == nil && y.Parse(got) == nil && c.sameButRedaction(q, x.Root(), y.Root(), known)
}

// sameButRedaction reports whether two objects are the same but for a redaction that is in
// one of them, by an event from number known on. What the server says of it is noted.
func (c *Comparer) sameButRedaction(q Question, expected, got pyjson.Value, known uint64) bool {
	byExpected, later := laterRedaction(expected, known)
	byGot, laterGot := laterRedaction(got, known)
	if !later && !laterGot || later && laterGot && byExpected != byGot {
		return false
	}
	if laterGot && (got.Member("links").Member("content").Kind() != pyjson.Absent || !later && expected.Member(redactedMember).Kind() != pyjson.Absent) {
		return false
	}
	if later && !laterGot && got.Member(redactedMember).Kind() != pyjson.Absent {
		return false
	}
	if !bytes.Equal(without(expected, redactedMember, "links", "checkpoint"), without(got, redactedMember, "links", "checkpoint")) ||
		!c.sameCheckpoint(expected.Member("checkpoint"), got.Member("checkpoint")) ||
		!bytes.Equal(without(expected.Member("links"), "content"), without(got.Member("links"), "content")) {
		return false
	}
	if seq := seqOf(canonical(got)); laterGot && seq != nil {
		c.saysRedacted(q, *seq, byGot)
	}
	return true
}

// laterRedaction is the event that has redacted a record, if it is one that the server
// was not known to have.
func laterRedaction(v pyjson.Value, known uint64) (by uint64, later bool) {
	by, err := strconv.ParseUint(string(v.Member(redactedMember).Raw()), 10, 64)
	return by, err == nil && by >= known
}

// saysRedacted notes that a record is redacted, as the server says.
func (c *Comparer) saysRedacted(q Question, seq, by uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Redacted[seq] = RedactionSaid{by, q}
	if by >= c.Largest {
		c.Largest, c.sizedBy = by+1, q
	}
}

// HeldToLog compares what answers said of the log beyond the copy with the log itself, of
// which so much is signed by now and these redactions.
func (c *Comparer) HeldToLog(signed uint64, redactions map[uint64]uint64) *Finding {
	if c.Largest > signed {
		return c.finding(c.sizedBy, "", "it is of a size that the log does not have", "at most "+cli.Decimal(signed), cli.Decimal(c.Largest))
	}
	for _, seq := range slices.Sorted(maps.Keys(c.Redacted)) {
		said := c.Redacted[seq]
		if by, redacted := redactions[seq]; !redacted || by != said.by {
			f := c.finding(said.q, redactedMember, "no such event redacts the record", "", cli.Decimal(said.by))
			if redacted {
				f.Expected = cli.Decimal(by)
			}
			f.Seq = &seq
			return f
		}
	}
	return nil
}

// AskAll asks questions, some at once, and gives each what came of it in their order
// until it wants no more. No question is under way when it returns: what answers them may
// be closed then.
func (c *Comparer) AskAll(ctx context.Context, questions []Question, parallel int, each func(int, ComparedAnswer) bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan chan ComparedAnswer, parallel-1)
	asking.Go(func() {
		defer close(answers)
		for _, q := range questions {
			answer := make(chan ComparedAnswer, 1)
			select {
			case answers <- answer:
			case <-ctx.Done():
				return
			}
			asking.Go(func() { answer <- c.Ask(ctx, q) })
		}
	})
	done := 0
	for answer := range answers {
		done++
		if !each(done, <-answer) {
			return
		}
	}
}
