package questions

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/client/wire"
	"colophon/ledger"
	"colophon/ledger/query"
	"colophon/proofs"
)

// ServeExport sends all rows of the answer to a question as NDJSON (spec: Export manifests). It
// reads them page by page, all at one tree size. The last line contains the signed manifest. A
// response without a manifest is incomplete.
func (h *Handlers) ServeExport(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	e, err := h.newExport(c, l)
	if err != nil {
		return err
	}
	defer e.text.Release()
	// This check comes first, because no error can be reported after the response has begun.
	if err := l.PublishedLog().CheckSigningKeys(); err != nil {
		return err
	}
	for first := true; first || e.cursor != ""; first = false {
		if err := e.page(first); err != nil {
			return err
		}
		if err := e.send(); err != nil {
			return err
		}
	}
	return e.finish()
}

// export is the state of one export request. Only the goroutine of the request uses it.
type export struct {
	*Handlers
	call     *call.Call
	ledger   *ledger.Ledger
	question *query.Question
	elements query.Parameters
	path     string     // path of the query, relative to the ledger's path
	values   url.Values // parameters of the question, without the tree size
	size     uint64     // tree size of the answer; 0 before the first page if the request does not give one
	allowed  func() error

	text   *call.Buffer // lines that are not sent yet
	tree   *proofs.Tree
	rest   json.RawMessage // the first page without its rows
	cursor string          // cursor of the next page; "" after the last page
}

// newExport creates an export from the parameters of a request.
func (h *Handlers) newExport(c *call.Call, l *ledger.Ledger) (*export, error) {
	var asked string
	e := &export{Handlers: h, call: c, ledger: l, allowed: c.ScopeRechecker(access.ScopeRead)}
	var sized bool
	if err := c.ParseParameters(call.TextParameter("question", &asked), call.UintParameter("as_of", &e.size, &sized)); err != nil {
		return nil, err
	}
	if asked == "" {
		return nil, problem.InvalidParameter("question", "is missing; use the path of a list or question, relative to the ledger's path, such as /records?kind=ipc_record")
	}
	if sized && e.size == 0 {
		return nil, problem.InvalidParameter("as_of", "must be at least 1: every ledger has at least one event")
	}
	path, rawQuery, _ := strings.Cut(asked, "?")
	var ok bool
	if e.question, e.elements, ok = query.FindQuestion(path); !ok || e.question.ParseParameters == nil {
		return nil, problem.InvalidParameter("question", "%.200q is not an exportable list or question; see /docs for the valid paths, and omit /v1/ledgers/%s from the path", path, l.Name())
	}
	var err error
	if e.values, err = url.ParseQuery(rawQuery); err != nil {
		return nil, problem.InvalidParameter("question", "the query is malformed: %v", err)
	}
	for _, name := range []string{"as_of", "limit", "cursor", "after", e.question.SecondCursorParameter} {
		if e.values.Has(name) {
			return nil, problem.InvalidParameter("question", "must not have the parameter %q: an export always contains all rows; to set the tree size, use the export's own parameter \"as_of\"", name)
		}
	}
	given := make(query.Parameters)
	for name := range e.values {
		given[name] = e.values.Get(name)
	}
	if e.question.RequiresHead != nil && e.question.RequiresHead(given) {
		return nil, problem.InvalidParameter("question", "cannot be exported with the parameter \"sort\": rankings are kept only for the head")
	}
	e.path = canonicalPath(path)
	e.tree, err = proofs.OpenTree(0, nil, nil)
	e.text = call.NewBuffer()
	return e, err
}

// canonicalPath returns the canonical form of a path: each element is decoded and
// percent-encoded again.
func canonicalPath(path string) string {
	elements := strings.Split(path, "/")
	for i, element := range elements {
		if text, err := url.PathUnescape(element); err == nil { // query.FindQuestion has already checked the path
			elements[i] = url.PathEscape(text)
		}
	}
	return strings.Join(elements, "/")
}

// page reads the next page of the answer.
func (e *export) page(first bool) error {
	values := url.Values{}
	for name, list := range e.values {
		values[name] = list
	}
	if e.question.SharedParameters&query.PageParameters != 0 {
		values.Set("limit", strconv.Itoa(e.Limiter.Limits.MaxPageRows))
	}
	switch {
	case e.cursor != "":
		values.Set("cursor", e.cursor)
	case e.size > 0:
		values.Set("as_of", strconv.FormatUint(e.size, 10))
	}
	request, view, err := e.openView(e.call, e.question, e.elements, values.Encode())
	if err != nil {
		return err
	}
	defer view.Close()
	answer, err := request.Answer(view)
	if err != nil {
		return err
	}
	e.size = view.Size()
	view.Close()
	return e.add(first, answer)
}

// add appends the rows of a page as lines, and sets the cursor of the next page. An answer that
// is not a list becomes one row.
func (e *export) add(first bool, answer any) error {
	whole := call.NewBuffer()
	defer whole.Release()
	if appender, is := answer.(interface{ AppendJSON([]byte) []byte }); is {
		whole.Text = appender.AppendJSON(whole.Text)
	} else if err := call.EncodeJSON(whole, answer); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(whole.Text, &members); err != nil {
		return fmt.Errorf("parsing the answer for the export: %w", err)
	}
	var rows []json.RawMessage
	listed, paged := members["rows"]
	if !paged {
		e.row(bytes.TrimSuffix(whole.Text, []byte("\n")))
	} else if err := json.Unmarshal(listed, &rows); err != nil {
		return fmt.Errorf("parsing the rows for the export: %w", err)
	}
	for _, row := range rows {
		e.row(row)
	}
	e.cursor = ""
	if paged && len(members["next"]) > 0 {
		if err := json.Unmarshal(members["next"], &e.cursor); err != nil {
			return fmt.Errorf("parsing the cursor of the next page: %w", err)
		}
	}
	if !first {
		return nil
	}
	if paged {
		delete(members, "rows")
		delete(members, "next")
	} else {
		members = map[string]json.RawMessage{}
	}
	rest := new(call.Buffer)
	err := call.EncodeJSON(rest, members) // sorts the members by name
	e.rest = bytes.TrimSuffix(rest.Text, []byte("\n"))
	return err
}

// row appends one row to the text as a line, and appends the row's leaf hash to the tree of rows.
func (e *export) row(text []byte) {
	e.tree.Append(proofs.LeafHash(text))
	e.tree.TakeDirtyTiles() // discard the completed tiles, which are not needed
	e.text.Text = append(e.text.Text, `{"row":`...)
	e.text.Text = append(append(e.text.Text, text...), "}\n"...)
}

// send sends the lines that are ready. The first call begins the response.
func (e *export) send() error {
	if err := e.call.HoldReadMemory(int64(cap(e.text.Text))); err != nil {
		return err
	}
	if !e.call.Response().Committed {
		header := e.call.Response().Header()
		header.Set(echo.HeaderContentType, call.NDJSONMediaType)
		header.Set(call.AsOfHeader, strconv.FormatUint(e.size, 10))
		e.call.Response().WriteHeader(http.StatusOK)
	} else if err := e.allowed(); err != nil {
		return err
	}
	for text := e.text.Text; len(text) > 0; {
		n := min(len(text), limits.MaxWriteBytes)
		if _, err := e.call.Response().Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	e.text.Text = e.text.Text[:0]
	return nil
}

// finish sends the line with the manifest.
func (e *export) finish() error {
	ctx, head := e.call.Request().Context(), e.ledger.Head()
	root, err := e.ledger.Prover(ctx, head).Root(e.size)
	if err != nil {
		return fmt.Errorf("computing the root at size %d: %w", e.size, err)
	}
	question := e.path
	if len(e.values) > 0 {
		question += "?" + e.values.Encode()
	}
	note, err := e.ledger.PublishedLog().SignExport(&proofs.ExportManifest{
		Checkpoint: proofs.Checkpoint{Origin: e.ledger.Info().Origin, Size: e.size, Root: root},
		Question:   question,
		RowCount:   e.tree.Size(), RowsRoot: e.tree.Root(), DigestWithoutRows: sha256.Sum256(e.rest),
	})
	if err != nil {
		return err
	}
	if err := call.EncodeJSON(e.text, wire.ExportLine{Manifest: string(note), Rest: e.rest}); err != nil {
		return err
	}
	return e.send()
}
