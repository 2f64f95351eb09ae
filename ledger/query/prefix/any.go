package prefix

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"colophon/ledger/event"
	"colophon/ledger/index"
)

// NamedHash is a hash and the name under which it occurs in records. Seq is the seq of the first
// record that contains the hash under that name.
type NamedHash struct {
	Name, Hash string
	Seq        uint64
}

// FindUnderAnyName returns the record hashes that begin with the given digits, under any name and
// in log order. It stops after limit hashes. It returns ErrTooManyHashes if the log exceeds the
// bounds.
func (b Bounds) FindUnderAnyName(ctx context.Context, v *index.View, digits string, limit int) (found []NamedHash, err error) {
	if v.Size() > uint64(b.MaxEvents) {
		return nil, ErrTooManyHashes
	}
	var decoder event.Decoder
	seen := make(map[[2]string]bool)
	for entry, err := range v.Entries(ctx, 0) {
		switch {
		case err != nil:
			return nil, err
		case entry.Seq >= v.Size():
			return found, nil
		}
		if b.MaxBytes -= len(entry.Bytes); b.MaxBytes < 0 {
			return nil, ErrTooManyHashes
		}
		if !bytes.Contains(entry.Bytes, []byte(digits)) {
			continue
		}
		e, err := decoder.Decode(entry.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing event %d: %w", entry.Seq, err)
		}
		for _, n := range hashesOf(&e) {
			key := [2]string{n.Name, n.Hash}
			if !strings.HasPrefix(strings.TrimPrefix(n.Hash, "sha256:"), digits) || seen[key] {
				continue
			}
			seen[key] = true
			if found = append(found, n); len(found) == limit {
				return found, nil
			}
		}
	}
	return found, nil
}

// hashesOf returns all hashes by which a record can be found.
func hashesOf(e *event.Event) (list []NamedHash) {
	if !e.Kind.IsRecord() {
		return nil
	}
	add := func(name string, hash []byte) { list = append(list, NamedHash{name, string(hash), e.Seq}) }
	for name, hash := range e.EffectiveHashes() {
		if string(name) != "seedless_input_hash" { // records are found by the value "input" instead of this hash
			add(string(name), hash)
		}
	}
	switch e.Kind {
	case kindWith(ChunkHashName):
		set := e.CitationSet()
		for i := range set.Citations {
			add(ChunkHashName, set.Citations[i].ChunkHash)
		}
	case kindWith(DocumentRootName):
		dag := e.DAG()
		for _, root := range dag.DocumentRoots {
			add(DocumentRootName, root)
		}
		for _, stage := range dag.Stages {
			add(StageNamePrefix+string(stage.Name), stage.Hash)
		}
	}
	return list
}
