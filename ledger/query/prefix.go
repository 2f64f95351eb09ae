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

// hashPrefix matches the first digits of a hash.
var hashPrefix = regexp.MustCompile(`^[0-9a-f]{8,63}$`)

// prefixed is a parameter that has only the first digits of a hash.
type prefixed struct {
	parameter string
	hash      string // name of the hash
	digits    string
}

// hashIn returns the name of the hash that a parameter contains, or "" if it contains none.
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
		name = prefix.ChunkHash
	}
	if form := forms.ForName(name); form != forms.Hash && form != forms.Chunk {
		return ""
	}
	return name
}

// takePrefixes pads the first digits of hashes to whole hashes, so that the parameters can be
// parsed before there is a view. resolve replaces the padded hashes later. The hash of a chunk
// may lack "sha256:", because tables omit it.
func (r *Request) takePrefixes(p Parameters) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		hash := r.Question.hashIn(p, name)
		if hash == "" {
			continue
		}
		algorithm := ""
		if hash == prefix.ChunkHash {
			algorithm = "sha256:"
		}
		switch digits := strings.TrimPrefix(p[name], algorithm); {
		case forms.Hash.Accepts(digits):
			p[name] = algorithm + digits
		case hashPrefix.MatchString(digits):
			r.prefixes = append(r.prefixes, prefixed{name, hash, algorithm + digits})
			p[name] = algorithm + digits + strings.Repeat("0", 64-len(digits))
		}
	}
}

// resolve replaces the first digits of each hash with the only hash that begins with them.
func (r *Request) resolve(v *View) (err error) {
	if len(r.prefixes) == 0 {
		return nil
	}
	p, err := v.withHashes(r.parameters, r.prefixes)
	if err == nil {
		r.ask, err = r.Question.Ask(p)
	}
	return err
}

// withHashes returns a copy of p in which whole hashes replace the prefixes.
func (v *View) withHashes(p Parameters, prefixes []prefixed) (_ Parameters, err error) {
	p = maps.Clone(p)
	for _, one := range prefixes {
		if p[one.parameter], err = v.hashWith(&one); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Resolve replaces the first digits of hashes in a filter with whole hashes. The caller must
// use the filter with the same view. If a hash cannot be resolved, the error is an *Error.
func (f *RecordFilter) Resolve(ctx context.Context, view *index.View) error {
	if len(f.prefixes) == 0 {
		return nil
	}
	p, err := (&View{Context: ctx, View: view}).withHashes(f.parameters, f.prefixes)
	if err == nil {
		*f, err = parseFilter(p)
	}
	return err
}

// maxCandidates is the largest number of hashes that an error lists.
const maxCandidates = 8

// hashWith returns the only hash that begins with the digits of p. If no hash or several hashes
// do, the error is an *Error.
func (v *View) hashWith(p *prefixed) (string, error) {
	candidates, err := prefix.Find(v.Context, v.View, p.hash, p.digits)
	switch {
	case errors.Is(err, prefix.ErrTooMany):
		return "", invalid(p.parameter, "must be a whole hash of 64 digits, because the ledger has too many hashes to search for those that begin with %s", p.digits)
	case err != nil:
		return "", err
	case len(candidates) == 0:
		return "", missing("no record has a value of %s that begins with %s", p.hash, p.digits)
	case len(candidates) > 1:
		more := ""
		if len(candidates) > maxCandidates {
			candidates, more = candidates[:maxCandidates], ", …"
		}
		return "", invalid(p.parameter, "matches several hashes: %s%s; give more digits", strings.Join(candidates, ", "), more)
	}
	return candidates[0], nil
}
