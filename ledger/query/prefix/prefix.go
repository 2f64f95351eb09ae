// Package prefix finds hashes of a ledger's records by their first digits.
package prefix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// Names of hashes that are not in the member hashes of an event.
const (
	ChunkHash    = "chunk_hash"
	DocumentRoot = "document_root"
	StagePrefix  = "stage:" // before the name of a stage
)

// maxSearched bounds the groups, and the records, that are searched for a hash.
const maxSearched = 50_000

// ErrTooMany is returned if a ledger has too many hashes to search.
var ErrTooMany = errors.New("the ledger has too many hashes to search")

// Find returns the distinct hashes with a name that begin with some digits, sorted. It
// searches the groups of runs. If no group has such a hash, it searches all records of the
// kinds that can have it.
func Find(ctx context.Context, v *index.View, name, digits string) ([]string, error) {
	found := make(map[string]bool)
	err := search(func(page index.Page) (n int, next []byte, err error) {
		if !groups.Grouped(name) {
			return 0, nil, nil
		}
		rows, next, err := groups.List(ctx, v, groups.Query{By: name, Any: true}, page)
		for i := range rows {
			if strings.HasPrefix(rows[i].Value, digits) {
				found[rows[i].Value] = true
			}
		}
		return len(rows), next, err
	})
	if err == nil && len(found) == 0 {
		var document pyjson.Document
		err = search(func(page index.Page) (int, []byte, error) {
			rows, next, err := records.List(ctx, v, recordsWith(name), page)
			for i := range rows {
				hashes, err := hashesIn(&rows[i], &document, name)
				if err != nil {
					return 0, nil, err
				}
				for _, hash := range hashes {
					if strings.HasPrefix(hash, digits) {
						found[hash] = true
					}
				}
			}
			return len(rows), next, err
		})
	}
	return slices.Sorted(maps.Keys(found)), err
}

// recordsWith selects the records that can have a hash with that name.
func recordsWith(name string) records.Filter {
	switch {
	case name == ChunkHash:
		return records.Filter{Kind: record.CitationSet, Bodies: true}
	case name == DocumentRoot, strings.HasPrefix(name, StagePrefix):
		return records.Filter{Kind: record.RunDAG, Bodies: true}
	}
	return records.Filter{}
}

// hashesIn returns the hashes that a listed record has under a name. document is scratch
// memory.
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
	if name == ChunkHash {
		set := e.CitationSet()
		for i := range set.Citations {
			hashes = append(hashes, string(set.Citations[i].ChunkHash))
		}
		return hashes, nil
	}
	dag := e.DAG()
	if name == DocumentRoot {
		for _, root := range dag.DocumentRoots {
			hashes = append(hashes, string(root))
		}
	}
	for _, stage := range dag.Stages {
		if StagePrefix+string(stage.Name) == name {
			hashes = append(hashes, string(stage.Hash))
		}
	}
	return hashes, nil
}

// search reads the pages of a list to the end, and returns ErrTooMany if the list is too long.
func search(read func(index.Page) (n int, next []byte, err error)) error {
	page := index.Page{Limit: 1000}
	for searched := 0; ; {
		n, next, err := read(page)
		if searched += n; err != nil || next == nil {
			return err
		}
		if searched >= maxSearched {
			return ErrTooMany
		}
		page.After = next
	}
}
