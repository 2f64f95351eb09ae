package citations

import (
	"colophon/ledger/drift"
	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// viewState holds the values that queries about citations cache in a view.
type viewState struct {
	runSets *bool // whether the dimension runSets has any row; nil if unknown
}

// LatestSetOfRun returns the seq of a run's latest citation set, or nil if the run has none. more
// reports whether the run has other sets.
func LatestSetOfRun(v *index.View, runID string) (seq *uint64, more bool, err error) {
	at, _, found, err := LatestSetBelow(v, []byte(runID), v.Size())
	if err != nil || !found {
		return nil, false, err
	}
	_, _, more, err = LatestSetBelow(v, []byte(runID), at)
	return &at, more, err
}

// LatestSetBelow returns the seq of a run's latest citation set whose seq is less than below, and
// the identity of the citations in the set. found is false if there is no such set.
func LatestSetBelow(v *index.View, runID []byte, below uint64) (seq uint64, cited rowstore.Identity, found bool, err error) {
	if runID == nil {
		return 0, cited, false, nil
	}
	state := index.ViewState[viewState](v)
	if state.runSets == nil {
		any, err := v.HasKeyWithPrefix(v.Keyspace.AppendPrefix(nil, runSets))
		if err != nil {
			return 0, cited, false, err
		}
		state.runSets = &any
	}
	if !*state.runSets {
		return 0, cited, false, nil
	}
	run := rowstore.IdentityOf(runID)
	seq, value, found, err := v.NewestVersionBelow(runSets, run[:], below)
	if err == nil && found {
		cited, err = decodeIdentity(value)
	}
	return seq, cited, found, err
}

// CompareLatestSets compares the latest citation sets of runs a and b whose seqs are less than
// below. It returns the zero value if either run has no set.
func CompareLatestSets(v *index.View, a, b []byte, below uint64) (sets drift.CitationSetPair, err error) {
	seqB, citedB, found, err := LatestSetBelow(v, b, below)
	if err != nil || !found {
		return drift.CitationSetPair{}, err
	}
	seqA, citedA, found, err := LatestSetBelow(v, a, below)
	if err != nil || !found {
		return drift.CitationSetPair{}, err
	}
	return drift.CitationSetPair{SeqA: seqA, SeqB: seqB, CitationsDiffer: citedA != citedB}, nil
}

// LostChunk is a cited chunk that is missing from the list of chunks in the current registration of
// its source.
type LostChunk struct {
	Citation
	RegistrationSeq uint64 // seq of the event that registered the source
}

// FindLostChunks returns the chunks that a set cites but that the current registration of their
// source does not list. Each chunk appears once, in the order of the set.
func FindLostChunks(v *index.View, set *Set) (lost []LostChunk, err error) {
	sources, seen := make(map[string]Source), make(map[pair]bool)
	for _, c := range set.Citations {
		source, chunk := rowstore.IdentityOf([]byte(c.SourceID)), rowstore.IdentityOf([]byte(c.ChunkHash))
		p := pairOf(source, chunk)
		if seen[p] {
			continue
		}
		seen[p] = true
		s, known := sources[c.SourceID]
		if !known {
			if s, _, err = sourceBelow(v, c.SourceID, source, v.Size()); err != nil {
				return nil, err
			}
			sources[c.SourceID] = s
		}
		if !s.HasChunkList {
			continue
		}
		listed, _, found, err := v.NewestVersion(listedChunks, p[:])
		if err != nil {
			return nil, err
		}
		if !found || listed != s.Seq {
			lost = append(lost, LostChunk{c, s.Seq})
		}
	}
	return lost, nil
}

// Reregistration describes a source whose registered chunks changed between two citation sets.
type Reregistration struct {
	SourceID   string
	SeqA, SeqB uint64 // seqs of the registrations in effect at the first and second set
}

// FindReregistrations returns the sources that set a or set b cites and whose registered chunks
// changed between the two sets. It omits a source that had no list of chunks at the time of set
// a or at the time of set b.
func FindReregistrations(v *index.View, a, b *Set) (changed []Reregistration, err error) {
	seen := make(map[string]bool)
	for _, set := range []*Set{a, b} {
		for _, c := range set.Citations {
			if seen[c.SourceID] {
				continue
			}
			seen[c.SourceID] = true
			row := rowstore.IdentityOf([]byte(c.SourceID))
			seqA, listA, err := listBelow(v, row, a.Seq)
			if err != nil {
				return nil, err
			}
			seqB, listB, err := listBelow(v, row, b.Seq)
			if err != nil {
				return nil, err
			}
			if seqA > 0 && seqB > 0 && listA != listB {
				changed = append(changed, Reregistration{c.SourceID, seqA, seqB})
			}
		}
	}
	return changed, nil
}

// listBelow returns the seq of the registration of a source at the tree size below, and the
// identity of its list of chunks. seq is 0 if the source had no list at that size.
func listBelow(v *index.View, source rowstore.Identity, below uint64) (seq uint64, list rowstore.Identity, err error) {
	seq, value, found, err := v.NewestVersionBelow(sourceStates, source[:], below)
	if err != nil || !found {
		return 0, list, err
	}
	s, err := decodeSourceState(value)
	if s.listed == 0 {
		seq = 0
	}
	return seq, s.list, err
}

// Compare returns how the citations of set b differ from those of set a.
func Compare(a, b *Set) drift.CitationChange {
	cited := func(s *Set) []drift.Citation {
		list := make([]drift.Citation, len(s.Citations))
		for i, c := range s.Citations {
			list[i] = drift.Citation{ChunkHash: c.ChunkHash, SourceID: c.SourceID}
		}
		return list
	}
	return drift.CompareCitations(cited(a), cited(b))
}
