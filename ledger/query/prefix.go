package query

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
)

// hashPrefix is the form of the first digits of a hash.
var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,63}$`)

// prefixed is a parameter that has the first digits of a hash in place of all.
type prefixed struct {
	parameter string
	hash      string // its name
	digits    string
}

// hashIn returns the name of the hash that a parameter has; "" if it has none.
func (q *Question) hashIn(p Parameters, parameter string) string {
	name := parameter
	switch {
	case parameter == "value" && p.Has("by"):
		name = p["by"]
	case (parameter == "a" || parameter == "b") && p.Has("variable"):
		name = p["variable"]
	case parameter == "key":
		name = "cache_key"
	}
	if valueForm(name) != hashForm || strings.HasPrefix(name, "stage:") {
		return ""
	}
	return name
}

// takePrefixes replaces the first digits of hashes by whole hashes, so that the parameters can be
// parsed before there is a view. resolve replaces them again.
func (r *Request) takePrefixes(p Parameters) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if value := p[name]; hashPrefix.MatchString(value) {
			if hash := r.Question.hashIn(p, name); hash != "" {
				r.prefixes = append(r.prefixes, prefixed{name, hash, value})
				p[name] = value + strings.Repeat("0", 64-len(value))
			}
		}
	}
}

// resolve replaces the first digits of hashes by the only hash that begins with them.
func (r *Request) resolve(v *View) (err error) {
	if len(r.prefixes) == 0 {
		return nil
	}
	p := maps.Clone(r.parameters)
	for _, one := range r.prefixes {
		if p[one.parameter], err = v.hashWith(&one); err != nil {
			return err
		}
	}
	r.ask, err = r.Question.Ask(p)
	return err
}

// maxSearched bounds the groups, and the records, among which a hash is searched.
const maxSearched = 50_000

// maxCandidates bounds the hashes that an error lists.
const maxCandidates = 8

// hashWith returns the hash that begins with some digits. It searches the groups of runs, and if
// none has it, all records.
func (v *View) hashWith(p *prefixed) (string, error) {
	found := make(map[string]bool)
	err := v.search(p, func(page index.Page) (n int, next []byte, err error) {
		if !groups.Grouped(p.hash) {
			return 0, nil, nil
		}
		rows, next, err := groups.List(v.Context, v.View, groups.Query{By: p.hash, Any: true}, page)
		for i := range rows {
			if strings.HasPrefix(rows[i].Value, p.digits) {
				found[rows[i].Value] = true
			}
		}
		return len(rows), next, err
	})
	if err == nil && len(found) == 0 {
		member := `"` + p.hash + `":"`
		err = v.search(p, func(page index.Page) (int, []byte, error) {
			rows, next, err := records.List(v.Context, v.View, records.Filter{}, page)
			for i := range rows {
				_, hash, has := strings.Cut(string(rows[i].Hashes), member)
				if hash, _, ends := strings.Cut(hash, `"`); has && ends && strings.HasPrefix(hash, p.digits) {
					found[hash] = true
				}
			}
			return len(rows), next, err
		})
	}
	switch candidates := slices.Sorted(maps.Keys(found)); {
	case err != nil:
		return "", err
	case len(candidates) == 0:
		return "", missing("no record has a value of %s that begins with %s", p.hash, p.digits)
	case len(candidates) > 1:
		more := ""
		if len(candidates) > maxCandidates {
			candidates, more = candidates[:maxCandidates], ", …"
		}
		return "", invalid(p.parameter, "begins several hashes: %s%s; give more digits", strings.Join(candidates, ", "), more)
	default:
		return candidates[0], nil
	}
}

// search reads the pages of a list to its end. It refuses a list that is too long.
func (v *View) search(p *prefixed, read func(index.Page) (n int, next []byte, err error)) error {
	page := index.Page{Limit: 1000}
	for searched := 0; ; {
		n, next, err := read(page)
		if searched += n; err != nil || next == nil {
			return err
		}
		if searched >= maxSearched {
			return invalid(p.parameter, "must be a whole hash of 64 digits, because the ledger has too many to search for one that begins with %s", p.digits)
		}
		page.After = next
	}
}
