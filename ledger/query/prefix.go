package query

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
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
	case parameter == "hash":
		name = chunkHash
	}
	if form := valueForm(name); form != hashForm && form != chunkForm {
		return ""
	}
	return name
}

// Names of hashes that are not in the member hashes of an event.
const (
	chunkHash    = "chunk_hash"
	documentRoot = "document_root"
	stagePrefix  = "stage:" // before the name of a stage
)

// takePrefixes replaces the first digits of hashes by whole hashes, so that the parameters can be
// parsed before there is a view. resolve replaces them again. A chunk's hash may lack "sha256:",
// because tables leave it out.
func (r *Request) takePrefixes(p Parameters) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		hash := r.Question.hashIn(p, name)
		if hash == "" {
			continue
		}
		algorithm := ""
		if hash == chunkHash {
			algorithm = "sha256:"
		}
		switch digits := strings.TrimPrefix(p[name], algorithm); {
		case hashForm.fits(digits):
			p[name] = algorithm + digits
		case hashPrefix.MatchString(digits):
			r.prefixes = append(r.prefixes, prefixed{name, hash, algorithm + digits})
			p[name] = algorithm + digits + strings.Repeat("0", 64-len(digits))
		}
	}
}

// resolve replaces the first digits of hashes by the only hash that begins with them.
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

// withHashes returns the parameters with whole hashes.
func (v *View) withHashes(p Parameters, prefixes []prefixed) (_ Parameters, err error) {
	p = maps.Clone(p)
	for _, one := range prefixes {
		if p[one.parameter], err = v.hashWith(&one); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Resolve replaces the first digits of hashes in a filter, as in the parameters of a request. The
// caller reads the same view with it. A refusal is an *Error.
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

// maxSearched bounds the groups, and the records, among which a hash is searched.
const maxSearched = 50_000

// maxCandidates bounds the hashes that an error lists.
const maxCandidates = 8

// hashWith returns the hash that begins with some digits. It searches the groups of runs, and if
// none has it, all records of the kinds that can have it.
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
		var document pyjson.Document
		err = v.search(p, func(page index.Page) (int, []byte, error) {
			rows, next, err := records.List(v.Context, v.View, recordsWith(p.hash), page)
			for i := range rows {
				hashes, err := hashesIn(&rows[i], &document, p.hash)
				if err != nil {
					return 0, nil, err
				}
				for _, hash := range hashes {
					if strings.HasPrefix(hash, p.digits) {
						found[hash] = true
					}
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

// recordsWith selects the records that can have a hash of that name.
func recordsWith(name string) records.Filter {
	switch {
	case name == chunkHash:
		return records.Filter{Kind: record.CitationSet, Bodies: true}
	case name == documentRoot, strings.HasPrefix(name, stagePrefix):
		return records.Filter{Kind: record.RunDAG, Bodies: true}
	}
	return records.Filter{}
}

// hashesIn returns the hashes of a listed record that have a name. document is scratch.
func hashesIn(r *records.Record, document *pyjson.Document, name string) (hashes []string, err error) {
	if r.Body == nil {
		_, hash, has := strings.Cut(string(r.Hashes), `"`+name+`":"`)
		if hash, _, ends := strings.Cut(hash, `"`); has && ends {
			hashes = append(hashes, hash)
		}
		return hashes, nil
	}
	if err := document.Parse(r.Body); err != nil {
		return nil, fmt.Errorf("event %d: %w", r.Seq, err)
	}
	e := event.Read(document.Root())
	if name == chunkHash {
		set := e.CitationSet()
		for i := range set.Citations {
			hashes = append(hashes, string(set.Citations[i].ChunkHash))
		}
		return hashes, nil
	}
	dag := e.DAG()
	if name == documentRoot {
		for _, root := range dag.DocumentRoots {
			hashes = append(hashes, string(root))
		}
	}
	for _, stage := range dag.Stages {
		if stagePrefix+string(stage.Name) == name {
			hashes = append(hashes, string(stage.Hash))
		}
	}
	return hashes, nil
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
