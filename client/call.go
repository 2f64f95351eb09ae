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

// request describes one call to the API. path is escaped and relative to the server's URL.
type request struct {
	method, path string
	query        url.Values
	header       map[string]string
	body         []byte // JSON; nil means no body
	repeat       bool   // whether the call can be repeated without taking effect twice
	slow         bool   // the client's timeout does not apply; only the context limits the call
	maxAnswer    int64  // maximum length of the response body in bytes; 0 means the client's limit
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query, repeat: true}
}

// send makes one request and returns the response with its body unread. It returns an error unless the response has a
// success status.
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
		return nil, fmt.Errorf("client: creating the request: %w", err)
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
			text = nil // the status alone is enough for the error
		}
		return nil, c.problem(r.method+" "+r.path, response, text)
	}
	return response, nil
}

// sendStream is like send, for a response that the caller reads line by line. The response must begin within the client's
// timeout; otherwise sendStream calls cancel, which must cancel ctx.
func (c *Client) sendStream(ctx context.Context, r request, cancel func()) (*http.Response, error) {
	if c.timeout <= 0 {
		return c.send(ctx, r, nil)
	}
	timer := time.AfterFunc(c.timeout, cancel)
	response, err := c.send(ctx, r, nil)
	if !timer.Stop() && errors.Is(err, context.Canceled) {
		err = c.unreachable(fmt.Errorf("the response did not begin within %v: %w", c.timeout, context.DeadlineExceeded))
	}
	return response, err
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, ErrUnexpectedResponse) {
		return err // the caller's own transport has rejected the response
	}
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	return &unreachableError{c.base, err}
}

// call makes a request and returns the response body. It repeats the request according to
// [RetryPolicy].
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	answer, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func (c *Client) do(ctx context.Context, r request) (*Response, error) {
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

func (c *Client) attempt(ctx context.Context, r request) (*Response, error) {
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
		return nil, fmt.Errorf("%w to %s %s: the body is longer than %d bytes; WithMaxResponseBytes sets the limit", ErrUnexpectedResponse, r.method, r.path, limit)
	}
	return &Response{Status: response.StatusCode, Header: response.Header, Body: text}, nil
}

// readUpTo reads at most limit+1 bytes of a body. Whatever Content-Length says, it allocates no more than about 1 MiB
// before the first MiB has arrived.
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
	Method string            // "" means GET
	Path   string            // escaped URL path; begins with a slash and can have a query
	Query  url.Values        // added to the path
	Header map[string]string // in addition to the client's headers
	Body   []byte            // JSON; nil means no body
	// MaxResponseBytes is the maximum length of the response body. 0 means the limit of
	// [WithMaxResponseBytes].
	MaxResponseBytes int64
}

// Response is a response with a success status, 200 to 299. Its body has been read completely.
type Response struct {
	Status int // HTTP status code
	Header http.Header
	Body   []byte
}

// Do makes a request for which this package has no method, or whose response the caller needs byte
// for byte. It repeats a GET according to [RetryPolicy], and never repeats other methods.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if !strings.HasPrefix(r.Path, "/") {
		return nil, fmt.Errorf("client: the path %.100q does not begin with a slash", r.Path)
	}
	method := cmp.Or(r.Method, http.MethodGet)
	return c.do(ctx, request{method: method, path: r.Path, query: r.Query, header: r.Header, body: r.Body,
		repeat: method == http.MethodGet, maxAnswer: r.MaxResponseBytes})
}

// answer makes a request and decodes the JSON of the response body.
func answer[T any](ctx context.Context, c *Client, r request) (*T, error) {
	text, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := decode(text, value); err != nil {
		return nil, fmt.Errorf("%w to %s %s: %w", ErrUnexpectedResponse, r.method, r.path, err)
	}
	return value, nil
}

// decode parses one JSON object into value. It returns an error if the arrays in text have more
// than maxElements elements in total.
func decode(text []byte, value any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return fmt.Errorf("not a JSON object: %.60q", text)
	}
	if len(text) > maxElements && elements(text) > maxElements {
		return fmt.Errorf("the arrays have more than %d elements in total", maxElements)
	}
	return json.Unmarshal(text, value)
}

// maxElements limits the total number of array elements in one response. It bounds memory, because decoding
// an element of two bytes can need a few hundred bytes.
const maxElements = 1 << 20

// elements counts the elements of all arrays of a JSON text. It stops counting soon after it exceeds maxElements. The
// result is meaningless if the text is not JSON.
func elements(text []byte) int {
	n, inText := 0, false
	var arrays []bool // stack of the enclosing values: true for an array, false for an object
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

// withBody returns the request with the JSON of value as its body.
func (r request) withBody(value any) (request, error) {
	text, err := wire.Marshal(value)
	if err != nil {
		return r, fmt.Errorf("client: encoding the body of %s %s: %w", r.method, r.path, err)
	}
	r.body = text
	return r, nil
}

// exchange makes a request with the given body and decodes the response. It does not set r.repeat.
func exchange[T any](ctx context.Context, c *Client, r request, body any) (*T, error) {
	r, err := r.withBody(body)
	if err != nil {
		return nil, err
	}
	return answer[T](ctx, c, r)
}

// QueryOptions are options of queries. They select the tree size at which the server answers, and what each answer
// contains. A nil pointer means the defaults. The server refuses an option that the query does not support.
type QueryOptions struct {
	AsOf          uint64 // tree size at which the server answers; 0 means the size of the index
	AfterSeq      uint64 // seq of an event; the server waits until the index contains it; 0 means no wait
	IncludeProofs bool   // add an inclusion proof to each row, and the checkpoint to the answer
	Limit         int    // rows per page, 1 to 1,000; 0 means 100; for lists only
	// IncludeTextFigures adds the lengths and the similarity of compared texts; only for
	// ChangeAttribution, Timeline and Effects, and only if the token has the content scope.
	IncludeTextFigures bool
	// IncludeNames adds readable names for hashes; only for groups, ChangeAttribution, Timeline,
	// Effects, and lists of records and run-DAGs.
	IncludeNames bool
}

func (o *QueryOptions) values() url.Values {
	q := make(url.Values)
	if o == nil {
		return q
	}
	setCount(q, "as_of", o.AsOf)
	setCount(q, "after", o.AfterSeq)
	setCount(q, "limit", uint64(max(0, o.Limit)))
	setFlag(q, "proofs", o.IncludeProofs)
	setFlag(q, "text", o.IncludeTextFigures)
	setFlag(q, "names", o.IncludeNames)
	return q
}

// StateOptions are options of queries that, by default, leave out failed, stale and quarantined records.
type StateOptions struct {
	QueryOptions
	IncludeAllStates bool // include failed, stale and quarantined records
}

func (o *StateOptions) values() url.Values {
	if o == nil {
		return make(url.Values)
	}
	q := o.QueryOptions.values()
	if o.IncludeAllStates {
		q.Set("state", "any")
	}
	return q
}

// RunQueryOptions are options of queries about runs.
type RunQueryOptions struct {
	StateOptions
	SeededOnly bool // leave out runs without a seed
}

func (o *RunQueryOptions) values() url.Values {
	if o == nil {
		return make(url.Values)
	}
	q := o.StateOptions.values()
	if o.SeededOnly {
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

// PagedList is a list that is read page by page. Creating one sends no request. Pages and All read every page at the
// tree size of the first page.
type PagedList[T any] struct {
	client *Client
	path   string
	query  url.Values
}

// ReadPage reads one page. cursor is "" for the first page, and then the Next of the previous page.
func (l *PagedList[T]) ReadPage(ctx context.Context, cursor string) (*wire.Page[T], error) {
	return answer[wire.Page[T]](ctx, l.client, get(l.path, withCursor(l.query, "cursor", cursor)))
}

// Pages iterates over all pages. It stops after the first error.
func (l *PagedList[T]) Pages(ctx context.Context) iter.Seq2[*wire.Page[T], error] {
	return pages(func(cursor string) (*wire.Page[T], error) { return l.ReadPage(ctx, cursor) }, func(page *wire.Page[T]) string { return page.Next })
}

// All iterates over the rows of all pages. It stops after the first error.
func (l *PagedList[T]) All(ctx context.Context) iter.Seq2[*T, error] {
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

// A CursorCycleDetector detects a list whose pages never end because their cursors form a cycle. It remembers one cursor at a
// time, at doubling distances (Brent's algorithm). The zero value is ready for use.
type CursorCycleDetector struct {
	mark            string
	steps, distance int
}

// ClosesCycle reports whether the cursors form a cycle. Call it with the Next cursor of each page,
// in order. It returns false for the empty cursor, which ends a list.
func (t *CursorCycleDetector) ClosesCycle(cursor string) bool {
	closes := cursor != "" && cursor == t.mark
	if t.steps++; t.steps >= t.distance {
		t.mark, t.steps, t.distance = cursor, 0, max(1, 2*t.distance)
	}
	return closes
}

// pages iterates over pages until one has no next cursor. It stops with an error if the cursors form a cycle.
func pages[P any](page func(cursor string) (*P, error), next func(*P) string) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		trail := new(CursorCycleDetector)
		for cursor := ""; ; {
			p, err := page(cursor)
			if err == nil {
				cursor = next(p)
			}
			if err == nil && trail.ClosesCycle(cursor) {
				err = fmt.Errorf("%w: the page cursors form a cycle", ErrUnexpectedResponse)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(p, nil) || cursor == "" {
				return
			}
		}
	}
}

// rows iterates over the rows of all pages. of returns the rows of a page. The iteration stops
// after the first error.
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

// join escapes each segment and joins the segments into a path that begins with a slash. No segment may be
// empty.
func join(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		switch s {
		case ".", "..": // servers and proxies would remove these segments
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
		default:
			b.WriteString(url.PathEscape(s))
		}
	}
	return b.String()
}
