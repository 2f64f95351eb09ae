package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
)

type parameter struct {
	name     string
	set      func(value string) error
	canEmpty bool // an empty value is valid, because records can have it
}

// query reads the query parameters. It refuses unknown and repeated parameters instead of
// ignoring them.
func query(c echo.Context, known ...parameter) error {
	if c.Request().URL.RawQuery == "" {
		return nil
	}
	given, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil { // ParseQuery would skip a part of it
		return fault(http.StatusBadRequest, "the query is malformed: %v", err)
	}
	for name, values := range given {
		if !utf8.ValidString(name) {
			return fault(http.StatusBadRequest, "the query has a parameter whose name is not valid UTF-8")
		}
		p := lookup(known, name)
		if p == nil {
			return unknown(name, known)
		}
		if len(values) != 1 {
			return invalid(name, "given more than once")
		}
		if !utf8.ValidString(values[0]) {
			return invalid(name, "must be valid UTF-8")
		}
		if err := p.read(values[0]); err != nil {
			return err
		}
	}
	return nil
}

// read parses the parameter's value. It refuses an empty value, which usually comes from an
// unset variable in a script.
func (p *parameter) read(value string) error {
	if value == "" && !p.canEmpty {
		return invalid(p.name, "must not be empty")
	}
	return p.set(value)
}

// unknown returns the 400 for an unknown parameter. It lists the known ones.
func unknown(name string, known []parameter) *problem {
	if len(known) == 0 {
		return invalid(name, "unknown query parameter; this route has none")
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	slices.Sort(names)
	return invalid(name, "unknown query parameter; known are %s", strings.Join(slices.Compact(names), ", "))
}

func lookup(known []parameter, name string) *parameter {
	for i := range known {
		if known[i].name == name {
			return &known[i]
		}
	}
	return nil
}

// text is a parameter of any text that is not empty.
func text(name string, to *string) parameter {
	return parameter{name: name, set: func(value string) error {
		*to = value
		return nil
	}}
}

// count is a parameter from 0 to 2^64-1. It sets given unless that is nil.
func count(name string, to *uint64, given *bool) parameter {
	return parameter{name: name, set: func(value string) error {
		n, err := parseCount(name, value)
		if err == nil {
			*to = n
			if given != nil {
				*given = true
			}
		}
		return err
	}}
}

func parseCount(name, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || decimal(n) != value {
		return 0, invalid(name, "must be a number from 0 to 2^64-1 in plain decimal")
	}
	return n, nil
}

// limit is the parameter that bounds the rows of a page, from 1 to maxPage.
func limit(to *uint64, maxPage int) parameter {
	const name = "limit"
	return parameter{name: name, set: func(value string) error {
		n, err := parseCount(name, value)
		if err != nil || n < 1 || n > uint64(maxPage) {
			return invalid(name, "must be a number from 1 to %d", maxPage)
		}
		*to = n
		return nil
	}}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// ledger returns the ledger that the path names.
func (s *Server) ledger(c echo.Context) (*ledger.Ledger, error) {
	return s.host.Ledger(c.Param("ledger"))
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
