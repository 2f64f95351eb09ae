package main

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

// comparer asks the server and the copy of the log the same, and compares. What is not
// of ask alone belongs to one goroutine.
type comparer struct {
	server, copied *fetcher
	size           uint64 // of the copy: the server has shown that it has as much
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
	shortPage atomic.Bool         // the server does not take mostRows
	tooMuch   int                 // answers that were longer than one can be

	mu       sync.Mutex // guards what follows
	redacted map[uint64]redactionSaid
	largest  uint64 // size that the server said the log has
	sizedBy  question
}

// redactionSaid is which event has redacted a record, as an answer says: the copy of
// the log may not have it yet.
type redactionSaid struct {
	by uint64
	q  question
}

func newComparer(server, copied *fetcher, size uint64) *comparer {
	return &comparer{server: server, copied: copied, size: size, memory: semaphore.NewWeighted(largeAnswers), redacted: make(map[uint64]redactionSaid)}
}

// comparedAnswer is what came of a question.
type comparedAnswer struct {
	rows    uint64
	finding *auditFinding
	err     error
	// later: the answer cannot be compared with the copy as it is. page is that answer,
	// nil where it has to be asked for again.
	later bool
	page  *answerPage
	// tooMuch: it was longer than an answer can be.
	tooMuch bool
}

// ask asks a question and compares the answers to their ends. The error says why that
// was not possible.
func (c *comparer) ask(ctx context.Context, q question) comparedAnswer {
	ctx, share := withShare(ctx, c.memory)
	defer share.release()
	page, err := c.first(ctx, q)
	if err != nil {
		return c.failed(q, err)
	}
	if c.isLater(q, page) {
		if share.taken || q.atHead {
			page = nil
		}
		return comparedAnswer{later: true, page: page}
	}
	answer := c.compare(ctx, q, page, false)
	if answer.finding != nil && page.status != http.StatusOK && q.asOf == 0 {
		return comparedAnswer{later: true} // it may be of another size than the copy
	}
	return answer
}

// first is the first page that the server answers.
func (c *comparer) first(ctx context.Context, q question) (*answerPage, error) {
	return c.fetch(ctx, c.server, q, pagePlace{size: q.asOf, limit: q.limit})
}

// isLater reports whether the copy has to be of another size for an answer.
func (c *comparer) isLater(q question, page *answerPage) bool {
	switch {
	case page.status != http.StatusOK || q.form.lines || q.form == ofEvent:
		return false
	case q.atHead:
		return page.size != c.size
	}
	return page.size > c.size || q.asOf == 0 && page.size < c.size
}

// mostTries is how often a question is asked again whose answer is of a smaller size than
// the server had.
const mostTries = 3

// settle asks a question again whose answer was later, and has the copy grow to the size
// of the answer. Nothing else is asked meanwhile.
func (c *comparer) settle(ctx context.Context, q question) (answer comparedAnswer) {
	ctx, share := withShare(ctx, c.memory)
	defer share.release()
	for range mostTries {
		page, err := c.first(ctx, q)
		if err != nil {
			return c.failed(q, err)
		}
		before := c.size
		if page.status == http.StatusOK {
			err = c.grow(ctx, page.size)
		} else {
			err = c.reach(ctx, 0)
		}
		if err != nil {
			return c.failed(q, err)
		}
		if c.isLater(q, page) {
			answer = comparedAnswer{finding: c.finding(q, "", "the answer is of a size that the server was beyond before", "at least "+cli.Decimal(c.size), cli.Decimal(page.size))}
			continue
		}
		answer = c.compare(ctx, q, page, true)
		if answer.finding == nil || page.status == http.StatusOK || c.size == before {
			return answer
		}
	}
	return answer
}

// grow has the copy grow to the size of an answer, if that is larger.
func (c *comparer) grow(ctx context.Context, size uint64) error {
	if size <= c.size {
		return nil
	}
	return c.reach(ctx, size)
}

// compare compares an answer with that of the copy, to the end of its lists. mayGrow: the
// copy may grow with the answer's pages.
func (c *comparer) compare(ctx context.Context, q question, got *answerPage, mayGrow bool) (answer comparedAnswer) {
	if q.form == ofDocument {
		return c.compareDocument(q, got)
	}
	if q.atHead && len(q.lists) > 0 && got.status == http.StatusOK {
		return c.compareRanking(ctx, q, got, mayGrow)
	}
	expected, err := c.copyOf(ctx, q, got, "")
	if err != nil {
		return comparedAnswer{err: err}
	}
	if f := c.comparePages(q, expected, got); f != nil || got.status != http.StatusOK {
		return comparedAnswer{finding: f}
	}
	for _, list := range q.lists {
		for _, member := range list.members {
			n, finding, err := c.compareList(ctx, q, list, member, expected, got)
			answer.rows += n
			if err != nil {
				return c.failed(q, err)
			}
			if finding != nil {
				answer.finding = finding
				return answer
			}
		}
	}
	return answer
}

// copyOf is what the copy answers in the place of an answer of the server.
func (c *comparer) copyOf(ctx context.Context, q question, got *answerPage, position string) (*answerPage, error) {
	p := pagePlace{size: got.size, limit: got.limit, cursor: "cursor", position: position}
	if got.status != http.StatusOK {
		p.size = q.asOf
	}
	if q.atHead {
		p.size = 0
	}
	expected, err := c.fetch(ctx, c.copied, q, p)
	if err != nil {
		err = fmt.Errorf("asking the copy of the log: %s: %w", q, err)
	}
	return expected, err
}

// comparePages compares two answers but for their lists.
func (c *comparer) comparePages(q question, expected, got *answerPage) *auditFinding {
	if expected.status != got.status {
		return c.findingAt(q, got, "", "the answer has another status", expected.says(), got.says())
	}
	for _, name := range answerHeaders {
		if a, b := headerValue(expected.header, name), headerValue(got.header, name); a != b {
			return c.findingAt(q, got, name, "the header differs", a, b)
		}
	}
	switch {
	case got.status != http.StatusOK:
		return nil
	case q.form.lines:
		return c.compareLines(q, expected, got)
	case q.form.text:
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
func (c *comparer) failed(q question, err error) comparedAnswer {
	var bad *badAnswer
	switch {
	case errors.As(err, &bad):
		return comparedAnswer{finding: c.finding(q, bad.row, bad.message, bad.expected, bad.got)}
	case errors.Is(err, errTooMuch) || errors.Is(err, errAnswer):
		return comparedAnswer{finding: c.finding(q, "", err.Error(), "", ""), tooMuch: errors.Is(err, errTooMuch)}
	}
	return comparedAnswer{err: fmt.Errorf("%s: %w", q, err)}
}

// badAnswer is an answer that is wrong whatever the copy has.
type badAnswer struct{ row, message, expected, got string }

// Error implements error.
func (b *badAnswer) Error() string { return b.message }

func (c *comparer) finding(q question, row, message, expected, got string) *auditFinding {
	return c.findingAt(q, &answerPage{size: q.asOf}, row, message, expected, got)
}

func (c *comparer) findingAt(q question, page *answerPage, row, message, expected, got string) *auditFinding {
	const most = 600
	query, at := q.String(), pagePlace{limit: q.limit}
	switch {
	case page.size > 0:
		query += " as of " + cli.Decimal(page.size)
	default:
		query += " at the head"
	}
	if at.size = q.asOf; q.at(at) != q.path {
		_, asked, _ := strings.Cut(q.at(at), "?")
		query += " (asked: ?" + asked + ")"
	}
	return &auditFinding{Kind: kindAnswer, Query: query, Row: row, Message: message,
		Expected: fmt.Sprintf("%.*s", most, expected), Got: fmt.Sprintf("%.*s", most, got)}
}

// errAnswer: an answer is not of the form that it has to have.
var errAnswer = errors.New("the answer is malformed")

// answerPage is a page of an answer. It owns its memory.
type answerPage struct {
	status   int
	why      string
	header   http.Header
	body     []byte
	document pyjson.Document // of JSON
	size     uint64          // that it is as of; 0 unless the status is 200
	known    uint64          // events that the server was known to have when it was asked
	limit    int             // rows that were asked for
}

// says is the status and what is wrong, where it is no success.
func (p *answerPage) says() string {
	if p.status == http.StatusOK {
		return strconv.Itoa(p.status)
	}
	return p.why
}

// root is what an answer says of the ledger.
func (c *comparer) root(q question, p *answerPage) pyjson.Value {
	root := p.document.Root()
	if !q.form.server {
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
func (c *comparer) fetch(ctx context.Context, from *fetcher, q question, p pagePlace) (*answerPage, error) {
	if from == c.server && c.shortPage.Load() && p.limit > defaultRows {
		p.limit = 0
	}
	for {
		page, err := c.fetchPage(ctx, from, q, p)
		switch {
		case errors.Is(err, errTooMuch) && q.paged() && p.limit != 1:
			p.limit = max(1, cmp.Or(p.limit, defaultRows)/50)
			continue
		case err == nil && page.status == http.StatusBadRequest && q.paged() && p.limit > 0:
			if p.limit > defaultRows && from == c.server {
				c.shortPage.Store(true)
			}
			p.limit = 0
			continue
		}
		return page, err
	}
}

// defaultRows are those of a page where the request does not say.
const defaultRows = 100

func (c *comparer) fetchPage(ctx context.Context, from *fetcher, q question, p pagePlace) (*answerPage, error) {
	path := from.path + q.at(p)
	if q.form.server {
		path = q.at(p)
	}
	known := c.size
	answer, err := from.ask(ctx, path, q.form.accept, maxAuditJSON)
	if err != nil {
		return nil, err
	}
	page := &answerPage{status: answer.status, why: answer.why, header: answer.header, body: answer.body, known: known, limit: p.limit}
	switch answer.status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, cli.Exitf(cli.ExitFailed, "the answers cannot be audited: %s", answer.why)
	default:
		return page, nil
	}
	if !q.form.lines && !q.form.text {
		if err := parseAnswer(&page.document, answer.body); err != nil {
			return nil, err
		}
	}
	if page.size, err = c.sizeOf(q, page, from == c.server); err != nil {
		return nil, err
	}
	switch {
	case p.position == "" && p.size > 0 && q.form.size != "" && page.size != p.size:
		return nil, fmt.Errorf("%w: it is not as of size %d", errAnswer, p.size)
	case p.limit > 0 && rowsOf(q, page) > p.limit:
		return nil, fmt.Errorf("%w: its page has %d rows of %d that were asked for", errAnswer, rowsOf(q, page), p.limit)
	}
	return page, nil
}

// rowsOf is how many rows the longest list of a page has.
func rowsOf(q question, p *answerPage) (most int) {
	for _, list := range q.lists {
		for _, member := range list.members {
			if rows := p.document.Root().Member(member); rows.Kind() == pyjson.Array && q.paged() {
				most = max(most, rows.Len())
			}
		}
	}
	return most
}

// parseAnswer reads an answer in JSON, of a bounded number of values.
func parseAnswer(d *pyjson.Document, body []byte) error {
	err := d.ParseWithin(body, maxAuditValues)
	var syntax *pyjson.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Msg, "more than"):
		return fmt.Errorf("%w: more than %d values", errTooMuch, maxAuditValues)
	case err != nil:
		return fmt.Errorf("%w: %w", errAnswer, err)
	case d.Root().Kind() != pyjson.Object:
		return fmt.Errorf("%w: it is no object", errAnswer)
	}
	return nil
}

// sizeOf is the size that an answer says it is as of. noted: what it says is held against
// the log at the end.
func (c *comparer) sizeOf(q question, p *answerPage, noted bool) (size uint64, err error) {
	switch {
	case q.form.text:
		var proof *proofs.TlogProof
		if proof, err = proofs.ParseTlogProof(p.body); err != nil {
			return 0, fmt.Errorf("%w: %w", errAnswer, err)
		}
		checkpoint, err := proofs.OpenCheckpoint(proof.Checkpoint, append(slices.Clone(c.keys), c.copyKey)...)
		if err != nil {
			return 0, fmt.Errorf("%w: its checkpoint: %w", errAnswer, err)
		}
		size = checkpoint.Size
	case q.form.says == nil:
		size, err = strconv.ParseUint(strings.Join(p.header.Values(asOfHeader), ","), 10, 64)
	default:
		v := c.root(q, p)
		for _, name := range q.form.says {
			v = v.Member(name)
		}
		size, err = strconv.ParseUint(string(v.Raw()), 10, 64)
	}
	if err != nil || size == 0 {
		return 0, fmt.Errorf("%w: it does not say as of which size it is", errAnswer)
	}
	if noted {
		c.saysSize(q, size)
		if q.form == ofStatistics {
			head, err := strconv.ParseUint(string(p.document.Root().Member("tree_size").Raw()), 10, 64)
			if err != nil || head < size {
				return 0, &badAnswer{"tree_size", "the log is smaller than its index", "at least " + cli.Decimal(size), string(p.document.Root().Member("tree_size").Raw())}
			}
			c.saysSize(q, head)
		}
	}
	return size, nil
}

// asOfHeader says the size where the body does not.
const asOfHeader = "Colophon-As-Of"

// saysSize notes that the log has a size, as the server says.
func (c *comparer) saysSize(q question, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.largest {
		c.largest, c.sizedBy = size, q
	}
}

// differs finds the first member of two answers that differs, but for lists, and where
// they go on.
func (c *comparer) differs(q question, expected, got *answerPage) (member string, a, b []byte, differ bool) {
	if q.form.server && c.ledgerListed(got) != 1 {
		return "ledgers", []byte("one row of the ledger"), fmt.Appendf(nil, "%d", c.ledgerListed(got)), true
	}
	x, y := c.root(q, expected), c.root(q, got)
	if c.sameButRedaction(q, x, y, got.known) {
		return "", nil, nil, false
	}
	for _, side := range [...]pyjson.Value{x, y} {
		for name := range side.Members() {
			member = string(name.Text())
			if slices.ContainsFunc(q.lists, func(l answerList) bool { return member == l.next || slices.Contains(l.members, member) }) {
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
func (c *comparer) ledgerListed(p *answerPage) (n int) {
	for name := range p.document.Root().Members() {
		if string(name.Text()) != "ledgers" {
			return 0
		}
	}
	for row := range p.document.Root().Member("ledgers").Elements() {
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
func (c *comparer) sameMember(q question, size uint64, name string, expected, got pyjson.Value) bool {
	switch {
	case slices.Contains(q.form.settings, name):
		return c.saysSetting(q, name, got)
	case name == "checkpoint" && q.form == ofTwoSizes:
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
func (c *comparer) saysSetting(_ question, name string, got pyjson.Value) bool {
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
func (c *comparer) sameCheckpoint(expected, got pyjson.Value) bool {
	if expected.Kind() != pyjson.String || got.Kind() != pyjson.String {
		return expected.Kind() == got.Kind()
	}
	return c.sameNote(expected.Text(), got.Text())
}

// signsSecond reports whether the checkpoint of a consistency proof is that of its second
// size. An answer has one only where that is the head of the log, which may have grown.
func (c *comparer) signsSecond(got pyjson.Value, size uint64) bool {
	if got.Kind() != pyjson.String {
		return got.Kind() == pyjson.Absent
	}
	checkpoint, err := proofs.OpenCheckpoint(got.Text(), c.keys...)
	root, rootErr := c.rootAt(size)
	return err == nil && rootErr == nil && checkpoint.Size == size && checkpoint.Root == root && checkpoint.Origin == c.origin
}

func (c *comparer) sameNote(expected, got []byte) bool {
	a, err := proofs.OpenCheckpoint(expected, c.copyKey)
	b, errGot := proofs.OpenCheckpoint(got, c.keys...)
	return err == nil && errGot == nil && a.Size == b.Size && a.Root == b.Root && b.Origin == c.origin
}

// compareProofs compares two .tlog-proof texts.
func (c *comparer) compareProofs(q question, expected, got *answerPage) *auditFinding {
	a, err := proofs.ParseTlogProof(expected.body)
	b, errGot := proofs.ParseTlogProof(got.body)
	if err != nil || errGot != nil || !bytes.Equal(a.Extra, b.Extra) || a.Index != b.Index || !slices.Equal(a.Hashes, b.Hashes) || !c.sameNote(a.Checkpoint, b.Checkpoint) {
		return c.findingAt(q, got, "", "the proof differs", string(expected.body), string(got.body))
	}
	return nil
}

// compareLines compares two answers line by line.
func (c *comparer) compareLines(q question, expected, got *answerPage) *auditFinding {
	a, b := bytes.SplitAfter(expected.body, []byte("\n")), bytes.SplitAfter(got.body, []byte("\n"))
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
func (c *comparer) compareList(ctx context.Context, q question, list answerList, member string, expected, got *answerPage) (n uint64, finding *auditFinding, err error) {
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
func (c *comparer) differing(q question, page *answerPage, place string, expected, got [2][]byte) *auditFinding {
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
func (c *comparer) emptyPages() uint64 { return 1000 + c.size/100 }

// errEnoughPages ends a list of which no more is compared.
var errEnoughPages = errors.New("enough pages")

// rows yields the rows of a list in canonical form, page by page, to its end. Of the server
// it is given the copy's first page: whatever else is on a later page has to be as there;
// and there may be an end of the pages that are compared, with errEnoughPages.
func (c *comparer) rows(ctx context.Context, from *fetcher, q question, list answerList, member string, page, expected *answerPage) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for empty, read := uint64(0), 1; ; read++ {
			root := page.document.Root()
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
			next := root.Member(list.next)
			switch {
			case next.Kind() == pyjson.Absent || list.next == "":
				return
			case next.Kind() != pyjson.String || len(next.Text()) == 0:
				yield(nil, fmt.Errorf("%w: its %s is no cursor", errAnswer, list.next))
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
func (c *comparer) compareBeside(ctx context.Context, q question, list answerList, expected, got *answerPage) error {
	f := c.comparePages(q, expected, got)
	for _, other := range q.lists {
		if f != nil || other.next == list.next {
			continue
		}
		for _, member := range other.members {
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
func (c *comparer) endsBefore(ctx context.Context, q question, list answerList, member string, n uint64, got *answerPage, behind []byte) (*auditFinding, error) {
	next := got.document.Root().Member(list.next)
	switch {
	case next.Kind() != pyjson.Absent:
		return c.leadsTo(ctx, q, list, member, got, string(next.Text()), behind)
	case behind != nil:
		return c.findingAt(q, got, fmt.Sprintf("%s[%d]", member, n), "a row is left out", string(behind), ""), nil
	}
	return nil, nil
}

// next is the page that a cursor leads to.
func (c *comparer) next(ctx context.Context, from *fetcher, q question, list answerList, page *answerPage, position string) (*answerPage, error) {
	limit := mostRows
	if from == c.server { // by chance, and each time the same
		sum := sha256.Sum256([]byte(q.String() + "\x00" + position))
		limit = anyLimit(binary.BigEndian.Uint64(sum[:]), 1)
	}
	next, err := c.fetch(ctx, from, q, pagePlace{limit: limit, cursor: list.cursor, position: position})
	switch {
	case err == nil && next.status != http.StatusOK:
		err = fmt.Errorf("%w: its next page: %s", errAnswer, next.why)
	case err == nil && next.size != page.size && !q.atHead:
		err = fmt.Errorf("%w: its next page is as of size %d, not %d", errAnswer, next.size, page.size)
	}
	return next, err
}

// compareRanking compares a list that is answered for the head of each request: page by
// page, with the copy at the size of that.
func (c *comparer) compareRanking(ctx context.Context, q question, got *answerPage, mayGrow bool) (answer comparedAnswer) {
	list, member := q.lists[0], q.lists[0].members[0]
	position := ""
	for pages := 1; ; pages++ {
		expected, err := c.copyOf(ctx, q, got, position)
		if err != nil {
			return comparedAnswer{err: err}
		}
		if f := c.comparePages(q, expected, got); f != nil {
			return comparedAnswer{finding: f}
		}
		n, behind, f, err := c.compareRanked(ctx, q, list, member, expected, got, answer.rows)
		answer.rows += n
		if err != nil {
			return c.failed(q, err)
		}
		if f != nil {
			return comparedAnswer{finding: f}
		}
		if f, err := c.endsBefore(ctx, q, list, member, answer.rows, got, behind); f != nil || err != nil {
			if err != nil {
				return c.failed(q, err)
			}
			return comparedAnswer{finding: f}
		}
		if got.document.Root().Member(list.next).Kind() == pyjson.Absent {
			return answer
		}
		position = string(got.document.Root().Member(list.next).Text())
		if pages == q.pages {
			return answer
		}
		if got, err = c.next(ctx, c.server, q, list, got, position); err != nil {
			return c.failed(q, err)
		}
		if got.size != c.size && !mayGrow {
			return comparedAnswer{later: true}
		}
		if err := c.grow(ctx, got.size); err != nil {
			return c.failed(q, err)
		}
		if got.size != c.size {
			return comparedAnswer{finding: c.findingAt(q, got, "", "the answer is of a size that the server was beyond before", "at least "+cli.Decimal(c.size), cli.Decimal(got.size))}
		}
	}
}

// compareRanked compares the rows of a page; behind is the row that comes behind them, nil
// if none does. A page may end early.
func (c *comparer) compareRanked(ctx context.Context, q question, list answerList, member string, expected, got *answerPage, before uint64) (n uint64, behind []byte, f *auditFinding, err error) {
	next, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, expected, nil))
	defer stop()
	rows := got.document.Root().Member(member)
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
func (c *comparer) leadsTo(ctx context.Context, q question, list answerList, member string, got *answerPage, position string, behind []byte) (*auditFinding, error) {
	page, err := c.fetch(ctx, c.copied, q, pagePlace{limit: got.limit, cursor: list.cursor, position: position})
	if err != nil {
		return nil, fmt.Errorf("asking the copy of the log: %w", err)
	}
	if page.status != http.StatusOK {
		return c.findingAt(q, got, list.next, "the cursor leads nowhere", "", position), nil
	}
	next, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, page, nil))
	defer stop()
	row, err, _ := next()
	if err != nil || bytes.Equal(row, behind) {
		return nil, err
	}
	return c.findingAt(q, got, list.next, "the cursor leads to another row", string(behind), string(row)), nil
}

// redactedMember is the one member of answers that is not as of a size, but live (2.6):
// the event that has redacted the record. Links to its content go with it.
const redactedMember = "redacted_by"

// sameRowButRedaction is sameButRedaction of rows.
func (c *comparer) sameRowButRedaction(q question, expected, got []byte, known uint64) bool {
	var x, y pyjson.Document
	return x.Parse(expected) == nil && y.Parse(got) == nil && c.sameButRedaction(q, x.Root(), y.Root(), known)
}

// sameButRedaction reports whether two objects are the same but for a redaction that is in
// one of them, by an event from number known on. What the server says of it is noted.
func (c *comparer) sameButRedaction(q question, expected, got pyjson.Value, known uint64) bool {
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
func (c *comparer) saysRedacted(q question, seq, by uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.redacted[seq] = redactionSaid{by, q}
	if by >= c.largest {
		c.largest, c.sizedBy = by+1, q
	}
}

// heldToLog compares what answers said of the log beyond the copy with the log itself, of
// which so much is signed by now and these redactions.
func (c *comparer) heldToLog(signed uint64, redactions map[uint64]uint64) *auditFinding {
	if c.largest > signed {
		return c.finding(c.sizedBy, "", "it is of a size that the log does not have", "at most "+cli.Decimal(signed), cli.Decimal(c.largest))
	}
	for _, seq := range slices.Sorted(maps.Keys(c.redacted)) {
		said := c.redacted[seq]
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

// askAll asks questions, some at once, and gives each what came of it in their order
// until it wants no more. No question is under way when it returns: what answers them may
// be closed then.
func (c *comparer) askAll(ctx context.Context, questions []question, parallel int, each func(int, comparedAnswer) bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan chan comparedAnswer, parallel-1)
	asking.Go(func() {
		defer close(answers)
		for _, q := range questions {
			answer := make(chan comparedAnswer, 1)
			select {
			case answers <- answer:
			case <-ctx.Done():
				return
			}
			asking.Go(func() { answer <- c.ask(ctx, q) })
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
