package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"colophon/client/wire"
)

// request is one call. Its path is escaped and below the server's URL.
type request struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         []byte // JSON; nil for none
	repeat       bool   // repeating it is safe
	slow         bool   // no timeout of its own
	maxAnswer    int64  // bytes; 0: the client's bound
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query, repeat: true}
}

// send makes a request that streams its answer, or its body. The answer is a success.
func (c *Client) send(ctx context.Context, r request, body io.Reader) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		separator := "?"
		if strings.Contains(r.path, "?") {
			separator = "&"
		}
		target += separator + r.query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if r.body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	q.Header.Set("User-Agent", c.userAgent)
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(q)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, c.maxAnswer))
		if err != nil {
			text = nil // the status says enough
		}
		return nil, c.problem(r.method+" "+r.path, response, text)
	}
	return response, nil
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, ErrAnswer) {
		return err // a transport of the caller's judges answers itself
	}
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	return &unreachableError{c.base, err}
}

// call makes a request and returns the answer's body. It repeats the request as [Retries] says.
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	answer, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func (c *Client) do(ctx context.Context, r request) (*Answer, error) {
	for failures := 1; ; failures++ {
		answer, err := c.attempt(ctx, r)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil || !r.repeat || !repeatable(err):
			return nil, err
		}
		if err := c.pause(ctx, failures, err); err != nil {
			return nil, err
		}
	}
}

func (c *Client) attempt(ctx context.Context, r request) (*Answer, error) {
	if c.timeout > 0 && !r.slow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	response, err := c.send(ctx, r, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	limit := cmp.Or(r.maxAnswer, c.maxAnswer)
	text, err := readUpTo(response, limit)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w to %s %s: it is longer than %d bytes; WithMaxAnswer sets the bound", ErrAnswer, r.method, r.path, limit)
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// readUpTo reads a body up to the limit and one byte more. A Content-Length is trusted for the allocation once
// the answer has begun to arrive.
func readUpTo(response *http.Response, limit int64) ([]byte, error) {
	const first = 1 << 20 // bytes
	var body bytes.Buffer
	grow := func(to int64) {
		if stated := min(response.ContentLength, to); stated > int64(body.Len()) {
			body.Grow(int(stated) - body.Len() + bytes.MinRead)
		}
	}
	grow(min(limit, first))
	n, err := body.ReadFrom(io.LimitReader(response.Body, min(limit, first)+1))
	if err == nil && n > first {
		grow(limit)
		_, err = body.ReadFrom(io.LimitReader(response.Body, limit-n+1))
	}
	return body.Bytes(), err
}

// Request is a request for [Client.Do].
type Request struct {
	Method    string            // "" is GET
	Path      string            // of the API, escaped; it begins with a slash and may have a query of its own
	Query     url.Values        // added to the path
	Header    map[string]string // beside those of the client
	Body      []byte            // JSON; nil for none
	MaxAnswer int64             // bytes; 0: as [WithMaxAnswer] says
}

// Answer is a success: its status is 200 to 299.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do makes a request that this package has no call for, or whose answer is wanted byte for byte. A GET is repeated
// as [Retries] says, other methods are not.
func (c *Client) Do(ctx context.Context, r Request) (*Answer, error) {
	if !strings.HasPrefix(r.Path, "/") {
		return nil, fmt.Errorf("client: the path %.100q does not begin with a slash", r.Path)
	}
	method := cmp.Or(r.Method, http.MethodGet)
	return c.do(ctx, request{method: method, path: r.Path, query: r.Query, header: r.Header, body: r.Body,
		repeat: method == http.MethodGet, maxAnswer: r.MaxAnswer})
}

// answer makes a request and decodes the answer.
func answer[T any](ctx context.Context, c *Client, r request) (*T, error) {
	text, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := decode(text, value); err != nil {
		return nil, fmt.Errorf("%w to %s %s: %w", ErrAnswer, r.method, r.path, err)
	}
	return value, nil
}

// decode reads one JSON object.
func decode(text []byte, value any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return fmt.Errorf("it is not a JSON object: %.60q", text)
	}
	if len(text) > maxElements && elements(text) > maxElements {
		return fmt.Errorf("its arrays have more than %d elements", maxElements)
	}
	return json.Unmarshal(text, value)
}

// maxElements bounds the elements of all arrays of an answer. An element of two bytes can take a few hundred bytes of
// memory.
const maxElements = 1 << 20

// elements counts the elements of all arrays of a JSON text, up to a few more than maxElements. If the text is not
// JSON, the number means nothing.
func elements(text []byte) int {
	n, inText := 0, false
	var arrays []bool // whether each enclosing value is an array (else an object), innermost last
	for i := 0; i < len(text) && n <= maxElements; i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			arrays = append(arrays, c == '[')
			if c == '[' {
				n++
			}
		case (c == ']' || c == '}') && len(arrays) > 0:
			arrays = arrays[:len(arrays)-1]
		case c == ',' && len(arrays) > 0 && arrays[len(arrays)-1]:
			n++
		}
	}
	return n
}

// withBody adds a request's body.
func (r request) withBody(value any) (request, error) {
	text, err := wire.Marshal(value)
	if err != nil {
		return r, fmt.Errorf("client: body of %s %s: %w", r.method, r.path, err)
	}
	r.body = text
	return r, nil
}

// exchange makes a request with a body that changes nothing by itself.
func exchange[T any](ctx context.Context, c *Client, r request, body any) (*T, error) {
	r, err := r.withBody(body)
	if err != nil {
		return nil, err
	}
	return answer[T](ctx, c, r)
}

// QueryOptions says when a question is answered, and how much of the answer comes at once. A nil pointer
// asks for the defaults. The server refuses an option that the question does not have.
type QueryOptions struct {
	AsOf   uint64 // answer at this tree size; 0: at the head of the index
	After  uint64 // wait until the index has this event, by seq; 0: do not wait
	Proofs bool   // with inclusion proofs of the rows, and the checkpoint
	Limit  int    // rows of a page, 1 to 1,000; 0: 100. Lists only
	Text   bool   // with figures about texts, if the caller may read content. Attribution, Timeline and Effects only
}

func (o *QueryOptions) values() url.Values {
	q := make(url.Values)
	if o == nil {
		return q
	}
	setCount(q, "as_of", o.AsOf)
	setCount(q, "after", o.After)
	setCount(q, "limit", uint64(max(0, o.Limit)))
	setFlag(q, "proofs", o.Proofs)
	setFlag(q, "text", o.Text)
	return q
}

// StateOptions are the options of questions that omit records that are failed, stale or quarantined.
type StateOptions struct {
	QueryOptions
	AnyState bool // omit none
}

func (o *StateOptions) values() url.Values {
	if o == nil {
		return make(url.Values)
	}
	q := o.QueryOptions.values()
	if o.AnyState {
		q.Set("state", "any")
	}
	return q
}

// GenerationOptions are the options of questions about runs.
type GenerationOptions struct {
	StateOptions
	Seeded bool // omit runs without a seed
}

func (o *GenerationOptions) values() url.Values {
	if o == nil {
		return make(url.Values)
	}
	q := o.StateOptions.values()
	if o.Seeded {
		q.Set("seeded", "true")
	}
	return q
}

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setCount(q url.Values, name string, value uint64) {
	if value != 0 {
		q.Set(name, decimal(value))
	}
}

func setFlag(q url.Values, name string, value bool) {
	if value {
		q.Set(name, "true")
	}
}

func setTime(q url.Values, name string, value time.Time) {
	if !value.IsZero() {
		q.Set(name, value.UTC().Format(time.RFC3339Nano))
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// List is a list that is read page by page. It sends nothing until it is read. All pages are of the tree size of
// the first.
type List[T any] struct {
	client *Client
	path   string
	query  url.Values
}

// Page reads one page: the first, or that of a cursor, which is Next of the page before.
func (l *List[T]) Page(ctx context.Context, cursor string) (*wire.Page[T], error) {
	return answer[wire.Page[T]](ctx, l.client, get(l.path, withCursor(l.query, "cursor", cursor)))
}

// Pages reads all pages. It ends with the first error.
func (l *List[T]) Pages(ctx context.Context) iter.Seq2[*wire.Page[T], error] {
	return pages(func(cursor string) (*wire.Page[T], string, error) {
		page, err := l.Page(ctx, cursor)
		if err != nil {
			return nil, "", err
		}
		return page, page.Next, nil
	})
}

// All reads the rows of all pages. It ends with the first error.
func (l *List[T]) All(ctx context.Context) iter.Seq2[*T, error] {
	return rows(l.Pages(ctx), func(page *wire.Page[T]) []T { return page.Rows })
}

func withCursor(query url.Values, name, cursor string) url.Values {
	if cursor == "" {
		return query
	}
	q := make(url.Values, len(query)+1)
	for key, value := range query {
		q[key] = value
	}
	q.Set(name, cursor)
	return q
}

// A CursorTrail detects a server whose cursors form a cycle, so that its pages never end. It
// remembers one cursor, at distances that double (Brent's algorithm). The zero value is ready.
type CursorTrail struct {
	mark            string
	steps, distance int
}

// Repeats takes the cursor of the next page, and reports whether the cursors form a cycle. The
// empty cursor, which ends a list, never does.
func (t *CursorTrail) Repeats(cursor string) bool {
	repeats := cursor != "" && cursor == t.mark
	if t.steps++; t.steps >= t.distance {
		t.mark, t.steps, t.distance = cursor, 0, max(1, 2*t.distance)
	}
	return repeats
}

// pages follows cursors until there is none. It ends with an error if they form a cycle.
func pages[P any](page func(cursor string) (*P, string, error)) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		trail := new(CursorTrail)
		for cursor := ""; ; {
			p, next, err := page(cursor)
			if err == nil && trail.Repeats(next) {
				err = fmt.Errorf("%w: the pages lead round in a circle", ErrAnswer)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(p, nil) || next == "" {
				return
			}
			cursor = next
		}
	}
}

// rows is the rows of pages.
func rows[P, T any](pages iter.Seq2[*P, error], of func(*P) []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for page, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			list := of(page)
			for i := range list {
				if !yield(&list[i], nil) {
					return
				}
			}
		}
	}
}

// join makes a path of segments, each escaped. No segment may be empty.
func join(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case ".", "..": // servers and proxies clean these away
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}
