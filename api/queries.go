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

// question is a query to the index of a ledger: what all of them have in common
// (spec: Index and as_of; Pages and cursors). It must be closed.
type question struct {
	c      echo.Context
	ctx    context.Context
	ledger *ledger.Ledger
	head   *ledger.Head // at least as far as the view
	view   *index.View
	page   index.Page
	any    bool // records of all states, not only live ones
	atHead bool // of the head of each request, whatever came before
	proofs bool // attach inclusion proofs
}

// common are the parameters that a query has beside as_of and after, which all have, and
// its own.
type common uint8

const (
	paged    common = 1 << iota // limit and cursor
	stated                      // state, which is live or any
	provable                    // proofs
)

// asked reads common parameters and a query's own, which come first, and opens the view.
// A cursor goes on at the size that its first page was taken at.
func (s *Server) asked(c echo.Context, has common, own ...parameter) (*question, error) {
	a := asking{server: s, has: has}
	return a.question(c, own)
}

// askedAbout is asked for an answer about events that a request names, so that whoever
// has just recorded them is answered. What is no seq of the ledger is left to who reads
// it.
func (s *Server) askedAbout(c echo.Context, seqs []string, has common, own ...parameter) (*question, error) {
	a := asking{server: s, has: has, about: seqs}
	return a.question(c, own)
}

// askedAtHead is asked for rankings, which are kept for the head only: as_of is no
// parameter, and a cursor goes on at the head of its own request.
func (s *Server) askedAtHead(c echo.Context, has common, own ...parameter) (*question, error) {
	a := asking{server: s, has: has, atHead: true}
	return a.question(c, own)
}

// askedWithin is asked for an answer that has a second list, which goes on after the
// position that a cursor of that name leads to.
func (s *Server) askedWithin(c echo.Context, has common, name string, after *[]byte) (*question, error) {
	a := asking{server: s, has: has, within: name}
	q, err := a.question(c, []parameter{text(name, &a.cursorWithin)})
	if err == nil {
		*after = a.afterWithin
	}
	return q, err
}

// close closes the view. It may be called twice.
func (q *question) close() {
	if q.view != nil {
		_ = q.view.Close() // it is read only
		q.view = nil
	}
}

// What making the answer to a query takes at most, in bytes: the events that it may read,
// its rows, their proofs, and all of them as JSON.
const (
	pageMemory = 16 << 20
	rowMemory  = 256 << 10
	oneMemory  = 1 << 20 // of an answer that is no page
)

// memory bounds what making the answer takes.
func (a *asking) memory() int64 {
	if a.has&paged == 0 {
		return oneMemory
	}
	return min(pageMemory, oneMemory+rowMemory*int64(a.limit))
}

// asking is what a request says before its view is open.
type asking struct {
	server *Server
	has    common
	atHead bool
	about  []string // seqs that must be covered

	size, after           uint64
	sizeGiven, afterGiven bool
	limit                 uint64
	cursor, state, proofs string

	// Of the second list of an answer, if it has one.
	within, cursorWithin string
	afterWithin          []byte
}

func (a *asking) question(c echo.Context, own []parameter) (*question, error) {
	l, err := a.server.ledger(c)
	if err != nil {
		return nil, err
	}
	maxPage := a.server.config.MaxPage
	a.limit = uint64(min(defaultPage, maxPage))
	known := append(own, count("after", &a.after, &a.afterGiven))
	if a.has&paged != 0 {
		known = append(known, limit(&a.limit, maxPage), text("cursor", &a.cursor))
	}
	if a.has&stated != 0 {
		known = append(known, text("state", &a.state))
	}
	if a.has&provable != 0 {
		known = append(known, text("proofs", &a.proofs))
	}
	if !a.atHead {
		known = append(known, count("as_of", &a.size, &a.sizeGiven))
	} else if c.QueryParams().Has("as_of") {
		return nil, invalid("as_of", "cannot be combined with sort: rankings are kept for the head only")
	}
	if err := query(c, known...); err != nil {
		return nil, err
	}
	q := &question{c: c, ctx: c.Request().Context(), ledger: l, page: index.Page{Limit: int(a.limit)}, atHead: a.atHead}
	if q.any, err = choice("state", a.state, "live", "any"); err != nil {
		return nil, err
	}
	if q.proofs, err = choice("proofs", a.proofs, "false", "true"); err != nil {
		return nil, err
	}
	if q.page.After, err = a.position("cursor", a.cursor); err != nil {
		return nil, err
	}
	if a.afterWithin, err = a.position(a.within, a.cursorWithin); err != nil {
		return nil, err
	}
	return q, a.open(q)
}

// choice is a parameter of two values, the first of which it has when it is not
// given; it reports whether it has the second.
func choice(name, value, first, second string) (bool, error) {
	switch value {
	case "", first:
		return false, nil
	case second:
		return true, nil
	}
	return false, invalid(name, "must be %s or %s", first, second)
}

// position reads a cursor: the size of the first page, and where that ended.
func (a *asking) position(name, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	size, position, ok := decodeCursor(cursor)
	if !ok {
		return nil, invalid(name, "must be the value of %s of an earlier answer", nextOf(name))
	}
	if a.atHead != (size == headSize) {
		return nil, invalid(name, "is of another query")
	}
	if a.sizeGiven && a.size != size {
		return nil, invalid("as_of", "differs from that of the %s, %d; leave it out", name, size)
	}
	if !a.atHead {
		a.size, a.sizeGiven = size, true
	}
	return position, nil
}

// nextOf is the member of an answer that a cursor comes from.
func nextOf(cursor string) string { return strings.TrimSuffix(cursor, "cursor") + "next" }

// headSize stands in a cursor that goes on at the head; no answer is of that size.
const headSize = 0

// decodeCursor is the size that a cursor goes on at, and its position.
func decodeCursor(cursor string) (size uint64, position []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	size, n := binary.Uvarint(raw)
	if err != nil || n <= 0 {
		return 0, nil, false
	}
	return size, raw[n:], true
}

// open opens the view when the index has come as far as the request wants.
func (a *asking) open(q *question) error {
	size := q.ledger.Head().Size
	wanted := uint64(1) // the ledger's own first event
	for _, text := range a.about {
		if seq, err := strconv.ParseUint(text, 10, 64); err == nil && seq < size {
			wanted = max(wanted, seq+1)
		}
	}
	if a.sizeGiven {
		if a.size == 0 {
			return invalid("as_of", "must be at least 1: a ledger has its first event from the beginning")
		}
		if a.size > size {
			return invalid("as_of", "is beyond the head: the ledger has %d events", size)
		}
		wanted = max(wanted, a.size)
	}
	if a.afterGiven {
		if a.after >= size {
			return invalid("after", "there is no event %d: the ledger has %d", a.after, size)
		}
		wanted = max(wanted, a.after+1)
	}
	endHeavy(q.c) // of the body: the index may take its time
	follower, err := a.server.folded(q.ctx, q.ledger, wanted)
	if err != nil {
		return err
	}
	if err := holdAnswer(q.c, a.memory()); err != nil {
		return err
	}
	if !a.sizeGiven {
		a.server.settle(q.ctx, follower, size)
	}
	if err := beginHeavy(q.c, a.memory(), true); err != nil {
		return err
	}
	if a.sizeGiven {
		q.view, err = follower.View(a.size)
	} else if q.view, err = follower.Latest(); err == nil && q.view.Size() < wanted {
		// The index was replaced since: what it lacks now is no answer.
		err = errors.Join(index.ErrAhead, q.view.Close())
	}
	q.head = q.ledger.Head() // the index never leads
	return err
}

// next is the cursor for a position that a page gave; empty at the end.
func (q *question) next(position []byte) string {
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

// prove is the inclusion proof of an event, as JSON; nil unless the request wants
// proofs.
func (q *question) prove(seq uint64) (json.RawMessage, error) {
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

// taken says at which tree size an answer was taken, and carries the checkpoint
// of that size where the request wants proofs. Answers embed it.
type taken struct {
	AsOf       uint64 `json:"as_of"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

func (t *taken) take(q *question) error {
	t.AsOf = q.view.Size()
	if !q.proofs {
		return nil
	}
	checkpoint, err := q.ledger.Checkpoint(q.ctx, q.head, t.AsOf)
	t.Checkpoint = string(checkpoint)
	return err
}

// answerOne answers what embeds taken, and ends the question: while a slow client reads,
// neither the view nor the rows are kept.
func answerOne(q *question, answer interface{ take(*question) error }) error {
	if err := answer.take(q); err != nil {
		return err
	}
	q.close()
	return answerJSON(q.c, http.StatusOK, answer)
}

// proved is the place of a row in the log, and its inclusion proof where the
// request wants proofs. Rows embed it.
type proved struct {
	Seq       uint64          `json:"seq"`
	Inclusion json.RawMessage `json:"inclusion,omitempty"`
}

func (p *proved) proveIn(q *question) (err error) {
	p.Inclusion, err = q.prove(p.Seq)
	return err
}

// list is the answer to a query of many rows.
type list[R any] struct {
	taken
	Rows []R `json:"rows"`
	// Next is the cursor of the next page; there may be one even though no row is
	// left, and rows may be fewer than the limit.
	Next string `json:"next,omitempty"`
}

// answerRows answers a page of rows.
func answerRows[R any, P interface {
	*R
	proveIn(*question) error
}](q *question, rows []R, next []byte) error {
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

// element is an element of the path, in which every character can stand percent-
// encoded.
func element(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath != "" { // else it is decoded already
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
