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
	questions "colophon/ledger/query"
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
		n, err := questions.ParseCount(name, value)
		if err == nil {
			*to = n
			if given != nil {
				*given = true
			}
		}
		return err
	}}
}

// limit is the parameter that bounds the rows of a page, from 1 to maxPage.
func limit(to *int, maxPage int) parameter {
	return parameter{name: "limit", set: func(value string) error {
		n, err := questions.ParseLimit(value, maxPage)
		if err == nil {
			*to = n
		}
		return err
	}}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// ledger returns the ledger that the path names.
func (s *Server) ledger(c echo.Context) (*ledger.Ledger, error) {
	return s.host.Ledger(c.Param("ledger"))
}
