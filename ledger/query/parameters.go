package query

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"colophon/ledger/index"
	"colophon/ledger/query/forms"
	"colophon/ledger/record/moment"
)

// Parameters maps the names of a request's path elements and query parameters to their values.
type Parameters map[string]string

// Has reports whether the request has a parameter with the given name.
func (p Parameters) Has(name string) bool {
	_, has := p[name]
	return has
}

// ParseUint parses the named parameter as a number from 0 to 2^64-1. given is false if the request lacks the parameter.
func (p Parameters) ParseUint(name string) (n uint64, given bool, err error) {
	text, given := p[name]
	if given {
		n, err = ParseUint(name, text)
	}
	return n, given, err
}

// ParseUint parses a number from 0 to 2^64-1 in plain decimal. name is used in the error.
func ParseUint(name, value string) (uint64, error) {
	if err := checkForm(forms.Seq, name, value); err != nil {
		return 0, err
	}
	return strconv.ParseUint(value, 10, 64)
}

// checkForm returns an error about the named parameter if its value does not have the form f.
func checkForm(f *forms.Format, name, value string) error {
	if f.Accepts(value) {
		return nil
	}
	return invalid(name, "must be %s", f.Description)
}

// ParseLimit parses the value of the limit parameter, the number of rows per page, which must be from 1 to maxPage.
func ParseLimit(value string, maxPage int) (int, error) {
	n, err := ParseUint("limit", value)
	if err != nil || n < 1 || n > uint64(maxPage) {
		return 0, invalid("limit", "must be a number from 1 to %d", maxPage)
	}
	return int(n), nil
}

// ParseChoice calls the function ParseChoice with the value of the named parameter.
func (p Parameters) ParseChoice(name, first, second string) (bool, error) {
	return ParseChoice(name, p[name], first, second)
}

// ParseChoice parses a parameter that has two possible values. It reports whether the value is second. An empty value
// means first.
func ParseChoice(name, value, first, second string) (bool, error) {
	switch value {
	case "", first:
		return false, nil
	case second:
		return true, nil
	}
	return false, invalid(name, "must be %s or %s", first, second)
}

// bounds parses the parameters since and until.
func (p Parameters) bounds() (b index.TimeRange, err error) {
	if b.Since, err = parseTime("since", p["since"]); err == nil {
		b.Until, err = parseTime("until", p["until"])
	}
	return b, err
}

// parseTime parses an RFC 3339 time. It returns nil for an empty value.
func parseTime(name, value string) (*time.Time, error) {
	if value == "" {
		return nil, nil
	}
	at, ok := moment.Parse([]byte(value))
	if ok {
		return &at, nil
	}
	hint := ""
	if _, ok := moment.Parse([]byte(strings.Replace(value, " ", "+", 1))); ok {
		hint = "; in the query, write + as %2B" // in a query, + is decoded as a space
	}
	return nil, invalid(name, "must be an RFC 3339 time, such as 2026-01-02T15:04:05Z%s", hint)
}

// oneOf parses a parameter whose value must be one of known. It returns "" if the value is empty or equal to all, the
// word that selects everything.
func oneOf[S ~string](name, value, all string, known []S) (S, error) {
	if value == "" || value == all {
		return "", nil
	}
	if !slices.Contains(known, S(value)) {
		var names []string
		for _, k := range known {
			names = append(names, string(k))
		}
		if all != "" {
			names = append(names, all)
		}
		return "", invalid(name, "must be one of %s", strings.Join(names, ", "))
	}
	return S(value), nil
}
