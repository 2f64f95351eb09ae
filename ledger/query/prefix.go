package query

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"colophon/ledger/index"
	"colophon/ledger/query/forms"
	"colophon/ledger/query/prefix"
)

// hashPrefix matches the beginning of a hash: 8 to 63 hexadecimal digits.
var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,63}$`)

// hashPrefixParameter describes a parameter that contains only the first digits of a hash.
type hashPrefixParameter struct {
	parameter string
	hash      string // the name of the hash, such as input_hash
	digits    string
}

// hashIn returns the name of the hash that the given parameter expects as its value, or "" if the parameter does not
// expect a hash.
func (q *Question) hashIn(p Parameters, parameter string) string {
	name := parameter
	switch {
	case parameter == "value" && p.Has("by"):
		name = p["by"]
	case (parameter == "a" || parameter == "b") && p.Has("variable"):
		name = p["variable"]
	case parameter == "key":
		name = "cache_key"
	case parameter == "hash":
		name = prefix.ChunkHashName
	}
	if form := forms.ForName(name); form != forms.Hash && form != forms.ChunkHash {
		return ""
	}
	return name
}

// takePrefixes pads each abbreviated hash in p with zeros to its full length, so that the parameters can be parsed
// before a view is open. Later, resolve replaces the padded hashes with the complete ones. A chunk hash can lack
// the prefix "sha256:", because tables omit it.
func (r *Request) takePrefixes(p Parameters) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		hash := r.Question.hashIn(p, name)
		if hash == "" {
			continue
		}
		algorithm := ""
		if hash == prefix.ChunkHashName {
			algorithm = "sha256:"
		}
		switch digits := strings.TrimPrefix(p[name], algorithm); {
		case forms.Hash.Accepts(digits):
			p[name] = algorithm + digits
		case hashPrefix.MatchString(digits):
			r.prefixes = append(r.prefixes, hashPrefixParameter{name, hash, algorithm + digits})
			p[name] = algorithm + digits + strings.Repeat("0", 64-len(digits))
		}
	}
}

// resolve replaces each abbreviated hash with the only hash in the view that begins with the given digits. It then
// parses the parameters again.
func (r *Request) resolve(v *View) (err error) {
	if len(r.prefixes) == 0 {
		return nil
	}
	p, err := v.withHashes(r.parameters, r.prefixes)
	if err == nil {
		r.ask, err = r.Question.ParseParameters(p)
	}
	return err
}

// withHashes returns a copy of p in which each of the given prefixes is replaced with the complete hash.
func (v *View) withHashes(p Parameters, prefixes []hashPrefixParameter) (_ Parameters, err error) {
	p = maps.Clone(p)
	for _, one := range prefixes {
		if p[one.parameter], err = v.hashWith(&one); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ResolveHashPrefixes completes the hashes in the filter that are given by their first digits. Afterwards, the filter must be
// used only with this view. If a hash cannot be resolved, the error is an *Error.
func (f *RecordFilter) ResolveHashPrefixes(ctx context.Context, view *index.View) error {
	if len(f.prefixes) == 0 {
		return nil
	}
	p, err := (&View{Context: ctx, View: view}).withHashes(f.parameters, f.prefixes)
	if err == nil {
		*f, err = parseFilter(p)
	}
	return err
}

// maxCandidates is the maximum number of matching hashes that the error for an ambiguous prefix lists.
const maxCandidates = 8

// hashWith returns the only hash that begins with the digits of p. The error is an *Error if no hash or more than one
// hash matches, or if there are too many hashes to search.
func (v *View) hashWith(p *hashPrefixParameter) (string, error) {
	candidates, err := prefix.Find(v.Context, v.View, p.hash, p.digits)
	switch {
	case errors.Is(err, prefix.ErrTooManyHashes):
		return "", invalid(p.parameter, "must be a complete 64-digit hash: the ledger has too many hashes to search for the prefix %s", p.digits)
	case err != nil:
		return "", err
	case len(candidates) == 0:
		return "", missing("no record has a value for %s that begins with %s", p.hash, p.digits)
	case len(candidates) > 1:
		more := ""
		if len(candidates) > maxCandidates {
			candidates, more = candidates[:maxCandidates], ", …"
		}
		return "", invalid(p.parameter, "matches several hashes: %s%s; use more digits", strings.Join(candidates, ", "), more)
	}
	return candidates[0], nil
}
