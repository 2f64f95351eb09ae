package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// answerPage is a page of an answer. It owns its memory.
type answerPage struct {
	status   int
	problem  string // the error message if the status is not 200
	readOnly bool   // the server has no key, so it cannot sign the checkpoint of the requested size
	header   http.Header
	body     []byte
	document pyjson.Document // the parsed body, if it is JSON
	size     uint64          // size for which the answer is valid; 0 unless the status is 200
	atLeast  uint64          // tree size that the server had already reported before the request
	limit    int             // requested number of rows; 0 if the request sets no limit
}

// statusText returns the status, with the server's message if it is not 200.
func (p *answerPage) statusText() string {
	if p.status == http.StatusOK {
		return strconv.Itoa(p.status)
	}
	return p.problem
}

// root returns the part of an answer to compare. In a list of ledgers, this is the row about the
// audited ledger. Otherwise, it is the whole document.
func (c *comparer) root(q question, p *answerPage) pyjson.Value {
	root := p.document.Root()
	if !q.form.ofServer {
		return root
	}
	found := pyjson.Value{}
	for row := range root.Member("ledgers").Elements() {
		if string(row.Member("name").Text()) == c.copy.Name() && found.Kind() == pyjson.Absent {
			found = row
		}
	}
	return found
}

// request requests a page. It repeats the request with fewer rows if the page is too long or if the
// source rejects that number of rows. A status other than 200 is not an error, unless the server
// reports that the token is invalid or lacks a scope.
func (c *comparer) request(ctx context.Context, from source, q question, p pageRequest) (*answerPage, error) {
	if from == c.server && c.smallPages.Load() && p.limit > defaultRows {
		p.limit = 0
	}
	for {
		page, err := from.page(ctx, q, p)
		switch {
		case errors.Is(err, fetch.ErrTooLong) && q.paged() && p.limit != 1:
			p.limit = max(1, cmp.Or(p.limit, defaultRows)/50)
			continue
		case err == nil && page.status == http.StatusBadRequest && q.paged() && p.limit > 0:
			if p.limit > defaultRows && from == c.server {
				c.smallPages.Store(true)
			}
			p.limit = 0
			continue
		}
		return page, err
	}
}

// defaultRows is the number of rows on a page if the request sets no limit.
const defaultRows = 100

// auditedServer is a source that queries the audited server.
type auditedServer struct{ *comparer }

// page implements source.
func (c auditedServer) page(ctx context.Context, q question, p pageRequest) (*answerPage, error) {
	atLeast := c.size
	answer, err := c.client.Do(ctx, fetch.Request{Path: q.at(p), RelativeToServer: q.form.ofServer, Accept: q.form.accept, MaxBytes: maxAnswer})
	if err != nil {
		return nil, err
	}
	page := &answerPage{status: answer.Status, problem: answer.Problem, header: answer.Header, body: answer.Body, atLeast: atLeast, limit: p.limit}
	switch answer.Status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &monitor.UncheckableError{Subject: "the answers", Reason: answer.Problem}
	default:
		page.readOnly = answer.ReadOnly && answer.Status == http.StatusNotFound && p.size > 0
		return page, nil
	}
	if !q.form.lines && !q.form.text {
		if err := parseAnswer(&page.document, answer.Body); err != nil {
			return nil, err
		}
	}
	if page.size, err = c.sizeOf(q, page); err != nil {
		return nil, err
	}
	switch {
	case p.position == "" && p.size > 0 && q.form.size != "" && page.size != p.size:
		return nil, fmt.Errorf("%w: the page is not for the requested tree size %d", fetch.ErrMalformed, p.size)
	case p.limit > 0 && rowsOf(q, page) > p.limit:
		return nil, fmt.Errorf("%w: the page has %d rows, but at most %d were requested", fetch.ErrMalformed, rowsOf(q, page), p.limit)
	}
	return page, nil
}

// rowsOf returns the number of rows of the longest list of a page.
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

// parseAnswer parses an answer in JSON. It fails if the answer has more than maxValues values.
func parseAnswer(d *pyjson.Document, body []byte) error {
	err := d.ParseLimited(body, maxValues)
	var syntax *pyjson.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Msg, "more than"):
		return fmt.Errorf("%w: the response has more than %d values", fetch.ErrTooLong, maxValues)
	case err != nil:
		return fmt.Errorf("%w: %w", fetch.ErrMalformed, err)
	case d.Root().Kind() != pyjson.Object:
		return fmt.Errorf("%w: the response is not an object", fetch.ErrMalformed)
	}
	return nil
}

// sizeOf returns the size for which an answer is valid, according to the server. It records every
// size that the answer claims, so that checkClaims can compare it with the log later.
func (c *comparer) sizeOf(q question, p *answerPage) (size uint64, err error) {
	switch {
	case q.form.text:
		var proof *proofs.TlogProof
		if proof, err = proofs.ParseTlogProof(p.body); err != nil {
			return 0, fmt.Errorf("%w: %w", fetch.ErrMalformed, err)
		}
		checkpoint, err := proofs.OpenCheckpoint(proof.Checkpoint, c.keys...)
		if err != nil {
			return 0, fmt.Errorf("%w: the checkpoint is invalid: %w", fetch.ErrMalformed, err)
		}
		size = checkpoint.Size
	case q.form.sizeMember == nil:
		size, err = strconv.ParseUint(strings.Join(p.header.Values(asOfHeader), ","), 10, 64)
	default:
		v := c.root(q, p)
		for _, name := range q.form.sizeMember {
			v = v.Member(name)
		}
		size, err = strconv.ParseUint(string(v.Raw()), 10, 64)
	}
	if err != nil || size == 0 {
		return 0, fmt.Errorf("%w: the tree size is missing or invalid", fetch.ErrMalformed)
	}
	c.noteSize(q, size)
	if q.form == statisticsForm {
		head, err := strconv.ParseUint(string(p.document.Root().Member("tree_size").Raw()), 10, 64)
		if err != nil || head < size {
			return 0, &badAnswer{"tree_size", "the log is smaller than its index", "at least " + decimal(size), string(p.document.Root().Member("tree_size").Raw())}
		}
		c.noteSize(q, head)
	}
	return size, nil
}

// asOfHeader is the header that contains the tree size of an answer if the body does not.
const asOfHeader = "Colophon-As-Of"
