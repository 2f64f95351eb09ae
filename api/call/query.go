package call

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"colophon/api/problem"
	"colophon/ledger"
	"colophon/ledger/query"
)

// Parameter is a query parameter that a route accepts.
type Parameter struct {
	name string
	set  func(value string) error
}

// ParseParameters reads the query parameters. It refuses unknown and repeated parameters instead of
// ignoring them.
func (c *Call) ParseParameters(known ...Parameter) error {
	if c.Request().URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil { // url.ParseQuery has left malformed parameters out of given
		return problem.New(http.StatusBadRequest, "the query is malformed: %v", err)
	}
	for name, values := range given {
		if !utf8.ValidString(name) {
			return problem.New(http.StatusBadRequest, "the query has a parameter whose name is not valid UTF-8")
		}
		p := lookup(known, name)
		if p == nil {
			return unknown(name, known)
		}
		if len(values) != 1 {
			return problem.InvalidParameter(name, "is given more than once; specify it only once")
		}
		if !utf8.ValidString(values[0]) {
			return problem.InvalidParameter(name, "must be valid UTF-8")
		}
		if err := p.read(values[0]); err != nil {
			return err
		}
	}
	return nil
}

// read parses the parameter's value. It refuses an empty value, which usually comes from an
// unset variable in a script.
func (p *Parameter) read(value string) error {
	if value == "" {
		return problem.InvalidParameter(p.name, "must not be empty")
	}
	return p.set(value)
}

// unknown returns the problem with status 400 for an unknown parameter. It lists the known ones.
func unknown(name string, known []Parameter) *problem.Problem {
	if len(known) == 0 {
		return problem.InvalidParameter(name, "unknown query parameter; this route accepts no query parameters")
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	slices.Sort(names)
	return problem.InvalidParameter(name, "unknown query parameter; the known parameters are %s", strings.Join(slices.Compact(names), ", "))
}

func lookup(known []Parameter, name string) *Parameter {
	for i := range known {
		if known[i].name == name {
			return &known[i]
		}
	}
	return nil
}

// TextParameter returns a parameter that accepts any non-empty text and stores it in *to.
func TextParameter(name string, to *string) Parameter {
	return Parameter{name: name, set: func(value string) error {
		*to = value
		return nil
	}}
}

// UintParameter returns a parameter that accepts a number from 0 to 2^64-1 and stores it in *to.
// If given is not nil, *given is set to true when the parameter is present.
func UintParameter(name string, to *uint64, given *bool) Parameter {
	return Parameter{name: name, set: func(value string) error {
		n, err := query.ParseUint(name, value)
		if err == nil {
			*to = n
			if given != nil {
				*given = true
			}
		}
		return err
	}}
}

// LimitParameter returns the parameter "limit", which sets the maximum number of rows per page. It
// accepts a number from 1 to maxPage and stores it in *to.
func LimitParameter(to *int, maxPage int) Parameter {
	return Parameter{name: "limit", set: func(value string) error {
		n, err := query.ParseLimit(value, maxPage)
		if err == nil {
			*to = n
		}
		return err
	}}
}

// PathParameters returns the percent-decoded path parameters of the request, except for the ledger.
func (c *Call) PathParameters() (query.Parameters, error) {
	elements := make(query.Parameters)
	for _, name := range c.ParamNames() {
		if name == "ledger" {
			continue
		}
		var err error
		if elements[name], err = c.PathValue(name); err != nil {
			return nil, err
		}
	}
	return elements, nil
}

// PathValue returns the value of a path parameter, percent-decoded.
func (c *Call) PathValue(name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath != "" { // otherwise, Echo has already decoded the value
		var err error
		if value, err = url.PathUnescape(value); err != nil {
			return "", problem.InvalidParameter(name, "has invalid percent-encoding")
		}
	}
	if !utf8.ValidString(value) {
		return "", problem.InvalidParameter(name, "is not valid UTF-8")
	}
	return value, nil
}

// ParseEventPath returns the ledger named in the path, its head, and the seq in the path. It
// returns an error with status 404 if the ledger has no such event.
func (c *Call) ParseEventPath() (*ledger.Ledger, *ledger.Head, uint64, error) {
	l, err := c.Ledger()
	if err != nil {
		return nil, nil, 0, err
	}
	seq, err := query.ParseUint("seq", c.Param("seq"))
	if err != nil {
		return nil, nil, 0, err
	}
	head := l.Head()
	if seq >= head.Size {
		return nil, nil, 0, problem.New(http.StatusNotFound, "there is no event %d: the ledger has %d events", seq, head.Size)
	}
	return l, head, seq, nil
}
