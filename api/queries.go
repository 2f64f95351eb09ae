package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/proofs"
)

// indexQuery is an open query to the index of a ledger (spec: Index and as_of; Pages and
// cursors). It must be closed.
type indexQuery struct {
	c      echo.Context
	ctx    context.Context
	ledger *ledger.Ledger
	head   *ledger.Head // at least the size of the view
	view   *index.View
	page   index.Page
	any    bool // records of all states, not only live ones
	atHead bool // every page is read at the head of its own request
	proofs bool // attach inclusion proofs
}

// commonParameters is a set of parameters that several queries share. All queries have as_of
// and after too.
type commonParameters uint8

const (
	withPages  commonParameters = 1 << iota // limit and cursor
	withState                               // state: live or any
	withProofs                              // proofs
)

// openQuery reads the common parameters and the query's own, and opens the view. A page that a
// cursor asks for is read at the tree size of the first page.
func (s *Server) openQuery(c echo.Context, has commonParameters, own ...parameter) (*indexQuery, error) {
	r := queryRequest{server: s, has: has}
	return r.open(c, own)
}

// openQueryAbout also waits until the index covers the events seqs, so that an event can be
// queried right after it was recorded. It ignores texts that are no seq of the ledger; the
// caller reports them.
func (s *Server) openQueryAbout(c echo.Context, seqs []string, has commonParameters, own ...parameter) (*indexQuery, error) {
	r := queryRequest{server: s, has: has, about: seqs}
	return r.open(c, own)
}

// openQueryAtHead opens a query for rankings, which exist for the head only. It refuses as_of.
// Every page is read at the head of its own request.
func (s *Server) openQueryAtHead(c echo.Context, has commonParameters, own ...parameter) (*indexQuery, error) {
	r := queryRequest{server: s, has: has, atHead: true}
	return r.open(c, own)
}

// openQueryWithSecondList opens a query whose answer has a second list. It sets after to the
// position in the cursor of that list, the parameter name.
func (s *Server) openQueryWithSecondList(c echo.Context, has commonParameters, name string, after *[]byte) (*indexQuery, error) {
	r := queryRequest{server: s, has: has, within: name}
	q, err := r.open(c, []parameter{text(name, &r.cursorWithin)})
	if err == nil {
		*after = r.afterWithin
	}
	return q, err
}

// close closes the view. Further calls do nothing.
func (q *indexQuery) close() {
	if q.view != nil {
		_ = q.view.Close() // the view is read only
		q.view = nil
	}
}

// Bounds of the memory for one answer, in bytes: the events to read, the rows, their proofs,
// and the JSON.
const (
	pageMemory = 16 << 20
	rowMemory  = 256 << 10
	oneMemory  = 1 << 20 // an answer that is no page
)

// memory bounds the memory for the answer, in bytes.
func (r *queryRequest) memory() int64 {
	if r.has&withPages == 0 {
		return oneMemory
	}
	return min(pageMemory, oneMemory+rowMemory*int64(r.limit))
}

// queryRequest holds the parameters of a request until its view is open.
type queryRequest struct {
	server *Server
	has    commonParameters
	atHead bool
	about  []string // seqs that the view must cover

	size, after           uint64
	sizeGiven, afterGiven bool
	limit                 uint64
	cursor, state, proofs string

	// The second list of the answer, if it has one.
	within, cursorWithin string
	afterWithin          []byte
}

func (r *queryRequest) open(c echo.Context, own []parameter) (*indexQuery, error) {
	l, err := r.server.ledger(c)
	if err != nil {
		return nil, err
	}
	maxPage := r.server.config.MaxPage
	r.limit = uint64(min(defaultPage, maxPage))
	known := append(own, count("after", &r.after, &r.afterGiven))
	if r.has&withPages != 0 {
		known = append(known, limit(&r.limit, maxPage), text("cursor", &r.cursor))
	}
	if r.has&withState != 0 {
		known = append(known, text("state", &r.state))
	}
	if r.has&withProofs != 0 {
		known = append(known, text("proofs", &r.proofs))
	}
	if !r.atHead {
		known = append(known, count("as_of", &r.size, &r.sizeGiven))
	} else if c.QueryParams().Has("as_of") {
		return nil, invalid("as_of", "cannot be combined with sort: rankings are kept for the head only")
	}
	if err := query(c, known...); err != nil {
		return nil, err
	}
	q := &indexQuery{c: c, ctx: c.Request().Context(), ledger: l, page: index.Page{Limit: int(r.limit)}, atHead: r.atHead}
	if q.any, err = choice("state", r.state, "live", "any"); err != nil {
		return nil, err
	}
	if q.proofs, err = choice("proofs", r.proofs, "false", "true"); err != nil {
		return nil, err
	}
	if q.page.After, err = r.position("cursor", r.cursor); err != nil {
		return nil, err
	}
	if r.afterWithin, err = r.position(r.within, r.cursorWithin); err != nil {
		return nil, err
	}
	return q, r.openView(q)
}

// choice parses a parameter of two values. It reports whether value is the second. An empty
// value means the first.
func choice(name, value, first, second string) (bool, error) {
	switch value {
	case "", first:
		return false, nil
	case second:
		return true, nil
	}
	return false, invalid(name, "must be %s or %s", first, second)
}

// position decodes a cursor. It keeps the tree size of the first page and returns the position
// after its last row.
func (r *queryRequest) position(name, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	size, position, ok := decodeCursor(cursor)
	if !ok {
		return nil, invalid(name, "must be the value of %s of an earlier answer", nextOf(name))
	}
	if r.atHead != (size == headSize) {
		return nil, invalid(name, "belongs to another query")
	}
	if r.sizeGiven && r.size != size {
		return nil, invalid("as_of", "differs from that of the %s, %d; leave it out", name, size)
	}
	if !r.atHead {
		r.size, r.sizeGiven = size, true
	}
	return position, nil
}

// nextOf names the member of an answer that supplies the cursor.
func nextOf(cursor string) string { return strings.TrimSuffix(cursor, "cursor") + "next" }

// headSize marks a cursor whose next page is read at the head. No answer has this size.
const headSize = 0

// decodeCursor returns the tree size and the position in a cursor.
func decodeCursor(cursor string) (size uint64, position []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	size, n := binary.Uvarint(raw)
	if err != nil || n <= 0 {
		return 0, nil, false
	}
	return size, raw[n:], true
}

// openView waits for the index, holds memory for the answer, and opens the view.
func (r *queryRequest) openView(q *indexQuery) error {
	size := q.ledger.Head().Size
	wanted := uint64(1) // the event that creates the ledger
	for _, text := range r.about {
		if seq, err := strconv.ParseUint(text, 10, 64); err == nil && seq < size {
			wanted = max(wanted, seq+1)
		}
	}
	if r.sizeGiven {
		if r.size == 0 {
			return invalid("as_of", "must be at least 1: every ledger has at least one event")
		}
		if r.size > size {
			return invalid("as_of", "is beyond the head: the ledger has %d events", size)
		}
		wanted = max(wanted, r.size)
	}
	if r.afterGiven {
		if r.after >= size {
			return invalid("after", "there is no event %d: the ledger has %d", r.after, size)
		}
		wanted = max(wanted, r.after+1)
	}
	endHeavy(q.c) // release the slot of the body before the wait for the index
	follower, err := r.server.waitForIndex(q.ctx, q.ledger, wanted)
	if err != nil {
		return err
	}
	if err := holdAnswer(q.c, r.memory()); err != nil {
		return err
	}
	if !r.sizeGiven {
		r.server.waitForRecentEvents(q.ctx, follower, size)
	}
	if err := beginHeavy(q.c, r.memory(), true); err != nil {
		return err
	}
	if r.sizeGiven {
		q.view, err = follower.View(r.size)
	} else if q.view, err = follower.Latest(); err == nil && q.view.Size() < wanted {
		// An empty index has replaced this one since the wait.
		err = errors.Join(index.ErrAhead, q.view.Close())
	}
	q.head = q.ledger.Head() // read after the view, so that it covers the view
	return err
}

// next returns the cursor for a position. A nil position marks the last page and gives "".
func (q *indexQuery) next(position []byte) string {
	if position == nil {
		return ""
	}
	size := q.view.Size()
	if q.atHead {
		size = headSize
	}
	raw := binary.AppendUvarint(nil, size)
	return base64.RawURLEncoding.EncodeToString(append(raw, position...))
}

// prove returns the inclusion proof of an event as JSON. It returns nil unless the request
// wants proofs.
func (q *indexQuery) prove(seq uint64) (json.RawMessage, error) {
	if !q.proofs {
		return nil, nil
	}
	path, err := q.ledger.Prover(q.ctx, q.head).Inclusion(seq, q.view.Size())
	if err != nil {
		return nil, fmt.Errorf("proving event %d: %w", seq, err)
	}
	inclusion := proofs.Inclusion{LeafIndex: seq, TreeSize: q.view.Size(), Hashes: path}
	return inclusion.AppendJSON(nil), nil
}

// answerTree is the tree size of an answer. If the request wants proofs, it has the checkpoint
// of that size. Answers embed it.
type answerTree struct {
	AsOf       uint64 `json:"as_of"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

func (t *answerTree) setTree(q *indexQuery) error {
	t.AsOf = q.view.Size()
	if !q.proofs {
		return nil
	}
	checkpoint, err := q.ledger.Checkpoint(q.ctx, q.head, t.AsOf)
	t.Checkpoint = string(checkpoint)
	return err
}

// answerOne sends an answer that embeds answerTree. It closes the query first, so that a slow
// client does not keep the view open.
func answerOne(q *indexQuery, answer interface{ setTree(*indexQuery) error }) error {
	if err := answer.setTree(q); err != nil {
		return err
	}
	q.close()
	return answerJSON(q.c, http.StatusOK, answer)
}

// provenSeq is the seq of a row. If the request wants proofs, it has the inclusion proof of
// that event. Rows embed it.
type provenSeq struct {
	Seq       uint64          `json:"seq"`
	Inclusion json.RawMessage `json:"inclusion,omitempty"`
}

func (p *provenSeq) proveIn(q *indexQuery) (err error) {
	p.Inclusion, err = q.prove(p.Seq)
	return err
}

// list is an answer of many rows.
type list[R any] struct {
	answerTree
	Rows []R `json:"rows"`
	// Next is the cursor of the next page. The next page can be empty, and a page can have
	// fewer rows than the limit.
	Next string `json:"next,omitempty"`
}

func answerRows[R any, P interface {
	*R
	proveIn(*indexQuery) error
}](q *indexQuery, rows []R, next []byte) error {
	for i := range rows {
		if err := P(&rows[i]).proveIn(q); err != nil {
			return err
		}
	}
	if rows == nil {
		rows = []R{}
	}
	return answerOne(q, &list[R]{Rows: rows, Next: q.next(next)})
}

// element returns an element of the path, percent-decoded.
func element(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath != "" { // without it Echo has decoded the element
		var err error
		if value, err = url.PathUnescape(value); err != nil {
			return "", invalid(name, "is not percent-encoded text")
		}
	}
	if !utf8.ValidString(value) {
		return "", invalid(name, "is not valid UTF-8")
	}
	return value, nil
}
