package query

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"colophon/ledger/index"
	"colophon/ledger/query/forms"
)

// Question describes a question about one ledger that its index can answer (spec: Index and as_of; Pages and
// cursors). Every question accepts the parameter after and, unless RequiresHead reports true, as_of.
type Question struct {
	// Path is relative to the ledger's path. An element that begins with a colon stands for the parameter with that
	// name.
	Path             string
	SharedParameters SharedParameters // the shared parameters that the question accepts
	// ParameterNames lists the question's own query parameters. Their values must not be empty.
	ParameterNames []string
	// ValueParameters lists the question's own query parameters that select records by a value, such as input_hash. Each must
	// have the format of that value, which may allow an empty value.
	ValueParameters []string
	// SeqParameters lists the parameters whose values are seqs of events. The answer waits until the index covers these
	// events, so that an event can be queried as soon as it is recorded.
	SeqParameters []string
	// SecondCursorParameter names the parameter that holds the cursor of the answer's second list.
	// It is "" if there is no second list. View.SecondPage selects the page of that list.
	SecondCursorParameter string
	// RequiresHead reports whether a request is answered from rankings, which exist only for the latest tree size (the
	// head). If so, each page is read at the head when it is requested. Nil means that the question never uses
	// rankings.
	RequiresHead func(Parameters) bool
	// AlwaysIncludesNames means that the answer includes display names even if the request does not set the names parameter.
	AlwaysIncludesNames bool
	// RefusalReasons gives the reason for refusing each parameter that only similar questions accept.
	RefusalReasons map[string]string
	// ParseParameters parses the question's own parameters and the elements of the path. It is nil if the request has a body,
	// because the answer then depends on the body too.
	ParseParameters ParseFunc
}

// SharedParameters is a set of parameters that several questions share.
type SharedParameters uint8

// The shared parameters.
const (
	// PageParameters stands for the parameters "limit" and "cursor".
	PageParameters SharedParameters = 1 << iota
	// StateParameter stands for the parameter "state", which is "live" or "any".
	StateParameter
	// ProofsParameter stands for the parameter "proofs", which adds inclusion proofs and a checkpoint to the answer.
	ProofsParameter
	// TextParameter stands for the parameter "text", which adds figures about texts, such as their similarity.
	TextParameter
	// SeededParameter stands for the parameter "seeded", which limits the answer to runs with a seed.
	SeededParameter
	// NamesParameter stands for the parameter "names", which adds display names to the answer.
	NamesParameter
)

// A ParseFunc parses the parameters of a question and returns a function that answers it. The answer has a type from
// client/wire or is a value with an AppendJSON method.
type ParseFunc func(Parameters) (func(*View) (any, error), error)

// askWith returns a ParseFunc that parses the parameters with parse and passes the result to answer.
func askWith[P, A any](parse func(Parameters) (P, error), answer func(*View, P) (A, error)) ParseFunc {
	return func(p Parameters) (func(*View) (any, error), error) {
		typed, err := parse(p)
		if err != nil {
			return nil, err
		}
		return func(v *View) (any, error) { return answer(v, typed) }, nil
	}
}

// askWithoutParameters returns a ParseFunc for a question that has no parameters of its own.
func askWithoutParameters[A any](answer func(*View) (A, error)) ParseFunc {
	return func(Parameters) (func(*View) (any, error), error) {
		return func(v *View) (any, error) { return answer(v) }, nil
	}
}

// pathParameter returns a parse function for a question whose only parameter is the named element of its path.
func pathParameter(name string) func(Parameters) (string, error) {
	return func(p Parameters) (string, error) { return p[name], nil }
}

// Request is a question with its parameters.
type Request struct {
	Question *Question
	// TreeSize is the tree size of the answer; 0 means the current size of the index.
	TreeSize uint64
	// MinIndexSize is the number of events that the index must have folded before it can answer the request.
	MinIndexSize uint64
	// IncludeFigures is true if the request asks for figures about texts, such as their similarity. The caller of Parse
	// must then set the view's TextComparer, but only if the client may read content.
	IncludeFigures bool
	// IncludeNames is true if the answer includes display names. The caller of Parse must then set
	// the view's NameFinder.
	IncludeNames bool
	view         View // the shared parameters, in a view that is not open yet
	ask          func(*View) (any, error)

	parameters Parameters
	prefixes   []hashPrefixParameter
}

// Limit returns the maximum number of rows on a page, or 0 if the answer is not a page.
func (r *Request) Limit() int {
	if r.Question.SharedParameters&PageParameters == 0 {
		return 0
	}
	return r.view.Page.Limit
}

// DefaultPageLimit is the number of rows on a page if the request does not set a limit.
const DefaultPageLimit = 100

// Parse parses the parameters of a question. elements holds the decoded path elements by name, and head is the
// number of events in the ledger. A page has at most maxPage rows. Any error is an *Error.
func (q *Question) Parse(elements Parameters, rawQuery string, head uint64, maxPage int) (*Request, error) {
	r := &Request{Question: q, IncludeNames: q.AlwaysIncludesNames, MinIndexSize: 1} // the index must cover the event that creates the ledger
	p, err := r.read(elements, rawQuery)
	if err != nil {
		return nil, err
	}
	if err := r.readCommon(p, maxPage); err != nil {
		return nil, err
	}
	r.parameters = p
	if q.ParseParameters != nil {
		if r.ask, err = q.ParseParameters(p); err != nil {
			return nil, err
		}
	}
	return r, r.checkSizes(p, head)
}

// read collects the parameters. It returns an error for unknown, repeated, and empty parameters instead of ignoring
// them.
func (r *Request) read(elements Parameters, rawQuery string) (Parameters, error) {
	given, err := url.ParseQuery(rawQuery)
	if err != nil { // ParseQuery skips malformed parts and returns the rest
		return nil, &Error{Detail: "the query is malformed: " + err.Error()}
	}
	p := make(Parameters, len(elements)+len(given))
	for name, values := range given {
		p[name] = values[0]
	}
	if r.view.atHead = r.Question.RequiresHead != nil && r.Question.RequiresHead(p); r.view.atHead && p.Has("as_of") {
		return nil, invalid("as_of", `cannot be combined with "sort", because rankings exist only at the latest tree size`)
	}
	maps.Copy(p, elements)
	r.takePrefixes(p)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		values := given[name]
		switch {
		case !utf8.ValidString(name):
			return nil, &Error{Detail: "the query has a parameter whose name is not valid UTF-8"}
		case r.Question.RefusalReasons[name] != "":
			return nil, invalid(name, "unknown query parameter; %s", r.Question.RefusalReasons[name])
		case !r.knows(name):
			return nil, r.unknown(name, r.names(), slices.Collect(maps.Keys(given)))
		case len(values) != 1:
			return nil, invalid(name, "must not be given more than once")
		case !utf8.ValidString(values[0]):
			return nil, invalid(name, "must be valid UTF-8")
		}
		if err := r.checkValue(name, p[name]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ownNames returns the question's own query parameters, without the shared ones.
func (r *Request) ownNames() []string {
	return slices.Concat(r.Question.ParameterNames, r.Question.ValueParameters)
}

// names returns the names of all query parameters that the question accepts.
func (r *Request) names() []string {
	names := append(r.ownNames(), "after")
	if !r.view.atHead {
		names = append(names, "as_of")
	}
	if r.Question.SecondCursorParameter != "" {
		names = append(names, r.Question.SecondCursorParameter)
	}
	if r.Question.SharedParameters&PageParameters != 0 {
		names = append(names, "limit", "cursor")
	}
	if r.Question.SharedParameters&StateParameter != 0 {
		names = append(names, "state")
	}
	if r.Question.SharedParameters&ProofsParameter != 0 {
		names = append(names, "proofs")
	}
	if r.Question.SharedParameters&TextParameter != 0 {
		names = append(names, "text")
	}
	if r.Question.SharedParameters&SeededParameter != 0 {
		names = append(names, "seeded")
	}
	if r.Question.SharedParameters&NamesParameter != 0 {
		names = append(names, "names")
	}
	return names
}

func (r *Request) knows(name string) bool { return slices.Contains(r.names(), name) || r.isValue(name) }

// isValue reports whether the named parameter selects records by a value. An entry in
// ValueParameters such as "label:<name>" stands for all names with that prefix.
func (r *Request) isValue(name string) bool {
	prefix, _, long := strings.Cut(name, ":")
	return slices.Contains(r.Question.ValueParameters, name) || long && slices.Contains(r.Question.ValueParameters, prefix+":<name>")
}

// unknown returns the error for an unknown parameter. The error lists the known ones.
func (r *Request) unknown(name string, names, given []string) error {
	for _, other := range given {
		if r.isValue(other) {
			names = append(names, other)
		}
	}
	slices.Sort(names)
	return invalid(name, "unknown query parameter; the known parameters are %s", strings.Join(slices.Compact(names), ", "))
}

// checkValue checks that a parameter's value has the right form. Most parameters must not be empty, because an empty
// value usually comes from an unset variable in a script.
func (r *Request) checkValue(name, value string) error {
	if !r.isValue(name) {
		if value == "" {
			return invalid(name, "must not be empty")
		}
		return nil
	}
	form := forms.ForName(name)
	if value == "" && form != forms.Any {
		return invalid(name, "must not be empty")
	}
	return checkForm(form, name, value)
}

// readCommon parses the shared parameters.
func (r *Request) readCommon(p Parameters, maxPage int) (err error) {
	v := &r.view
	v.Page.Limit = min(DefaultPageLimit, maxPage)
	if p.Has("limit") && r.Question.SharedParameters&PageParameters != 0 {
		if v.Page.Limit, err = ParseLimit(p["limit"], maxPage); err != nil {
			return err
		}
	}
	if p.Has("as_of") && !v.atHead {
		if r.TreeSize, err = ParseUint("as_of", p["as_of"]); err != nil {
			return err
		}
		if r.TreeSize == 0 {
			return invalid("as_of", "must be at least 1: every ledger has at least one event")
		}
	}
	for _, choice := range []struct {
		takes               SharedParameters
		name, first, second string
		is                  *bool
	}{
		{StateParameter, "state", "live", "any", &v.AnyState}, {ProofsParameter, "proofs", "false", "true", &v.IncludeProofs}, {TextParameter, "text", "false", "true", &r.IncludeFigures},
		{SeededParameter, "seeded", "false", "true", &v.SeededOnly}, {NamesParameter, "names", "false", "true", &r.IncludeNames},
	} {
		if r.Question.SharedParameters&choice.takes == 0 {
			continue
		}
		if *choice.is, err = p.ParseChoice(choice.name, choice.first, choice.second); err != nil {
			return err
		}
	}
	if r.Question.SharedParameters&PageParameters != 0 {
		if v.Page.After, err = r.position("cursor", p["cursor"]); err != nil {
			return err
		}
	}
	v.SecondPage.Limit = v.Page.Limit
	v.SecondPage.After, err = r.position(r.Question.SecondCursorParameter, p[r.Question.SecondCursorParameter])
	return err
}

// position decodes the cursor in the named parameter and returns the position after the last row of the previous
// page. Unless each page is read at the head, it also sets r.TreeSize to the tree size of the first page.
func (r *Request) position(name, cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	size, position, ok := decodeCursor(cursor)
	if !ok {
		return nil, invalid(name, "must be the value of %s in an earlier response", strings.TrimSuffix(name, "cursor")+"next")
	}
	if r.view.atHead != (size == headSize) {
		return nil, invalid(name, "belongs to a different query")
	}
	if r.TreeSize > 0 && r.TreeSize != size {
		return nil, invalid("as_of", "does not match the tree size in the %s (%d); omit this parameter", name, size)
	}
	if !r.view.atHead {
		r.TreeSize = size
	}
	return position, nil
}

// headSize is the size in a cursor whose next page is read at the head. No answer has this size.
const headSize = 0

// decodeCursor returns the tree size and the position that a cursor encodes.
func decodeCursor(cursor string) (size uint64, position []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	size, n := binary.Uvarint(raw)
	if err != nil || n <= 0 {
		return 0, nil, false
	}
	return size, raw[n:], true
}

// checkSizes checks that as_of and after do not exceed the head, and sets MinIndexSize so that the index covers the
// events that the request names.
func (r *Request) checkSizes(p Parameters, head uint64) error {
	for _, name := range r.Question.SeqParameters {
		// Ignore a value that is not the seq of an existing event; the question returns an error for it.
		if seq, err := strconv.ParseUint(p[name], 10, 64); err == nil && seq < head {
			r.MinIndexSize = max(r.MinIndexSize, seq+1)
		}
	}
	if r.TreeSize > head {
		return invalid("as_of", "is beyond the head: the ledger has %d events", head)
	}
	r.MinIndexSize = max(r.MinIndexSize, r.TreeSize)
	if !p.Has("after") {
		return nil
	}
	after, err := ParseUint("after", p["after"])
	if err != nil {
		return err
	}
	if after >= head {
		return invalid("after", "there is no event %d: the ledger has %d events", after, head)
	}
	r.MinIndexSize = max(r.MinIndexSize, after+1)
	return nil
}

// OpenView opens the view from which the request is answered. The caller must set the view's Log and CountCache, and
// must close the view. The error is index.ErrBehind if the index has not yet folded MinIndexSize events.
func (r *Request) OpenView(ctx context.Context, follower *index.Follower) (*View, error) {
	v, err := r.view, error(nil)
	v.Context = ctx
	if r.TreeSize > 0 {
		v.View, err = follower.View(r.TreeSize)
	} else if v.View, err = follower.LatestView(); err == nil && v.Size() < r.MinIndexSize {
		// An empty index replaced the previous one while the request was waiting.
		err = errors.Join(index.ErrBehind, v.View.Close())
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// Answer returns the answer to the request, computed from v. The error is an *Error if the question has no answer, and
// index.ErrInvalidPosition if the position in a cursor is invalid.
func (r *Request) Answer(v *View) (any, error) {
	if err := r.resolve(v); err != nil {
		return nil, err
	}
	return r.ask(v)
}
