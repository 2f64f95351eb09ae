package indextest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/index/citations"
)

// citationEvent is an event about citations or sources, as decoded by encoding/json.
type citationEvent struct {
	seq    uint64
	Kind   string
	Time   time.Time
	Record struct {
		RunID     *string `json:"run_id"`
		Subject   string
		Citations []struct {
			ChunkHash string `json:"chunk_hash"`
			SourceID  string `json:"source_id"`
			Section   *string
			Weight    json.RawMessage
		}
		SourceID      string    `json:"source_id"`
		ChunkHashes   *[]string `json:"chunk_hashes"`
		Title, Reason *string
	}
}

func (j *journal) citedEvents(size uint64) []citationEvent {
	j.t.Helper()
	var events []citationEvent
	for seq, entry := range j.entries[:size] {
		e := citationEvent{seq: uint64(seq)}
		require.NoError(j.t, json.Unmarshal(entry[32:], &e))
		events = append(events, e)
	}
	return events
}

// set returns the event as a citation set, with only the citations for which wanted returns true.
func (e *citationEvent) set(wanted func(citations.Citation) bool) citations.Set {
	s := citations.Set{Seq: e.seq, Time: e.Time, RunID: e.Record.RunID, Subject: e.Record.Subject}
	for _, c := range e.Record.Citations {
		one := citations.Citation{ChunkHash: c.ChunkHash, SourceID: c.SourceID, Section: c.Section, Weight: string(c.Weight)}
		if wanted(one) {
			s.Citations = append(s.Citations, one)
		}
	}
	return s
}

func anyCitation(citations.Citation) bool { return true }

// naiveSets returns the sets that have a citation for which wanted returns true, newest first.
func naiveSets(events []citationEvent, wanted func(citations.Citation) bool) []citations.Set {
	var sets []citations.Set
	for _, e := range slices.Backward(events) {
		if s := e.set(wanted); len(s.Citations) > 0 {
			sets = append(sets, s)
		}
	}
	return sets
}

func naiveDrifts(events []citationEvent, subject string) []citations.Drift {
	var list []citations.Drift
	before := citations.Set{}
	for _, e := range events {
		if e.Kind == "citation_set" && e.Record.Subject == subject {
			s := e.set(anyCitation)
			list = append(list, citations.Drift{Seq: s.Seq, Time: s.Time, RunID: s.RunID, PreviousSeq: before.Seq,
				ChunkChange: drift.CompareChunks(chunkHashes(&before), chunkHashes(&s))})
			before = s
		}
	}
	return list
}

// naiveConflicts returns the chunks with several sources, oldest conflict first.
func naiveConflicts(events []citationEvent) []citations.Conflict {
	var order []string
	sources := make(map[string][]citations.ChunkSource)
	for _, e := range events {
		for _, c := range e.Record.Citations {
			has := func(s citations.ChunkSource) bool { return s.ID == c.SourceID }
			if slices.ContainsFunc(sources[c.ChunkHash], has) {
				continue
			}
			sources[c.ChunkHash] = append(sources[c.ChunkHash], citations.ChunkSource{ID: c.SourceID, Seq: e.seq})
			if len(sources[c.ChunkHash]) == 2 {
				order = append(order, c.ChunkHash)
			}
		}
	}
	var list []citations.Conflict
	for _, chunk := range order {
		all := sources[chunk]
		list = append(list, citations.Conflict{Seq: all[1].Seq, ChunkHash: chunk, Sources: all[:min(len(all), 16)], SourceCount: uint64(len(all))})
	}
	return list
}

// naiveSources returns the sources in the order of their first registrations.
func naiveSources(events []citationEvent) []citations.SourceDetail {
	var list []citations.SourceDetail
	for _, e := range events {
		if e.Kind != "source_registered" && e.Kind != "source_revoked" {
			continue
		}
		i := slices.IndexFunc(list, func(s citations.SourceDetail) bool { return s.ID == e.Record.SourceID })
		if i < 0 && e.Kind == "source_revoked" {
			continue
		}
		s := citations.SourceDetail{Source: citations.Source{ID: e.Record.SourceID, Seq: e.seq, Registered: e.Kind == "source_registered"},
			Time: e.Time, Title: e.Record.Title, Reason: e.Record.Reason}
		if hashes := e.Record.ChunkHashes; hashes != nil {
			s.HasChunkList, s.ChunkCount, s.ChunkHashes = true, uint64(len(*hashes)), append(s.ChunkHashes, *hashes...)
		}
		if i < 0 {
			list = append(list, s)
		} else {
			list[i] = s
		}
	}
	return list
}

func naiveUnregistered(events []citationEvent, seq uint64) []string {
	known := naiveSources(events[:seq])
	var list []string
	for _, c := range events[seq].Record.Citations {
		registered := slices.ContainsFunc(known, func(s citations.SourceDetail) bool { return s.ID == c.SourceID && s.Registered })
		if len(known) > 0 && !registered && !slices.Contains(list, c.SourceID) {
			list = append(list, c.SourceID)
		}
	}
	return list
}

// naiveSetOf returns the latest citation set of a run, or nil if it has none.
func naiveSetOf(events []citationEvent, run string) *citations.Set {
	for _, e := range slices.Backward(events) {
		if e.Kind == "citation_set" && e.Record.RunID != nil && *e.Record.RunID == run {
			return new(e.set(anyCitation))
		}
	}
	return nil
}

// naivePairs returns the pairs of source and chunk that a set cites.
func naivePairs(s *citations.Set) map[naivePair]bool {
	pairs := make(map[naivePair]bool)
	for _, c := range s.Citations {
		pairs[naivePair{c.SourceID, c.ChunkHash}] = true
	}
	return pairs
}

// naiveLost returns the chunks that a set cites but that their sources, after the given events, do
// not list.
func naiveLost(events []citationEvent, set *citations.Set) (lost []citations.LostChunk) {
	for i, c := range set.Citations {
		seen := slices.ContainsFunc(set.Citations[:i], func(d citations.Citation) bool { return d.SourceID == c.SourceID && d.ChunkHash == c.ChunkHash })
		for _, s := range naiveSources(events) {
			if !seen && s.ID == c.SourceID && s.HasChunkList && !slices.Contains(s.ChunkHashes, c.ChunkHash) {
				lost = append(lost, citations.LostChunk{Citation: c, RegistrationSeq: s.Seq})
			}
		}
	}
	return lost
}

// naiveReregistered returns the cited sources whose list of chunks changed between two sets.
func naiveReregistered(events []citationEvent, a, b *citations.Set) (changed []citations.Reregistration) {
	var seen []string
	for _, c := range slices.Concat(a.Citations, b.Citations) {
		if slices.Contains(seen, c.SourceID) {
			continue
		}
		seen = append(seen, c.SourceID)
		for _, before := range naiveSources(events[:a.Seq]) {
			for _, after := range naiveSources(events[:b.Seq]) {
				one, other := slices.Sorted(slices.Values(before.ChunkHashes)), slices.Sorted(slices.Values(after.ChunkHashes))
				if before.ID == c.SourceID && after.ID == c.SourceID && before.HasChunkList && after.HasChunkList && !slices.Equal(one, other) {
					changed = append(changed, citations.Reregistration{SourceID: c.SourceID, SeqA: before.Seq, SeqB: after.Seq})
				}
			}
		}
	}
	return changed
}

type naivePair struct{ source, chunk string }

// naiveStaleness finds stale citations by comparing each event with all earlier events.
type naiveStaleness struct {
	events []citationEvent
	from   map[naivePair]uint64 // for each pair, the seq below which all citing sets are stale
	stale  map[string][]citations.StaleCitation
	count  uint64 // number of supersessions
}

func naiveStale(events []citationEvent) *naiveStaleness {
	n := &naiveStaleness{events: events, from: make(map[naivePair]uint64), stale: make(map[string][]citations.StaleCitation)}
	for i, e := range events {
		switch e.Kind {
		case "citation_set":
			n.set(i)
		case "source_registered":
			if e.Record.ChunkHashes == nil {
				continue
			}
			for _, p := range n.cited(i) {
				if p.source == e.Record.SourceID && !slices.Contains(*e.Record.ChunkHashes, p.chunk) {
					n.supersede(p, "registered", e.seq, e.seq)
				}
			}
		}
	}
	return n
}

// cited returns the distinct pairs of source and chunk that the events in n.events[:before] cite.
func (n *naiveStaleness) cited(before int) []naivePair {
	var pairs []naivePair
	for _, e := range n.events[:before] {
		for _, c := range e.Record.Citations {
			if p := (naivePair{c.SourceID, c.ChunkHash}); !slices.Contains(pairs, p) {
				pairs = append(pairs, p)
			}
		}
	}
	return pairs
}

// naivePlaces returns the pairs that an event cites, keyed by place: a source with a section or
// subject.
func naivePlaces(e *citationEvent) map[string][]naivePair {
	places := make(map[string][]naivePair)
	for _, c := range e.Record.Citations {
		place := "subject " + e.Record.Subject
		if c.Section != nil && *c.Section != "" {
			place = "section " + *c.Section
		}
		place = c.SourceID + " " + place
		places[place] = append(places[place], naivePair{c.SourceID, c.ChunkHash})
	}
	return places
}

func (n *naiveStaleness) set(i int) {
	e := &n.events[i]
	for place, now := range naivePlaces(e) {
		for _, earlier := range slices.Backward(n.events[:i]) {
			before, cited := naivePlaces(&earlier)[place]
			if !cited {
				continue
			}
			for _, p := range before {
				if !slices.Contains(now, p) {
					n.supersede(p, "recited", e.seq, e.seq)
				}
			}
			break
		}
	}
	known := naiveSources(n.events[:i])
	for _, c := range e.Record.Citations {
		for _, s := range known {
			if s.ID == c.SourceID && s.HasChunkList && !slices.Contains(s.ChunkHashes, c.ChunkHash) {
				n.supersede(naivePair{c.SourceID, c.ChunkHash}, "not_listed", e.seq, e.seq+1)
			}
		}
	}
}

// supersede marks as stale the sets that cite p and whose seq is less than below.
func (n *naiveStaleness) supersede(p naivePair, how string, by, below uint64) {
	var found []citations.StaleCitation
	for _, e := range slices.Backward(n.events[:below]) {
		cites := false
		for _, c := range e.Record.Citations {
			cites = cites || p == naivePair{c.SourceID, c.ChunkHash}
		}
		if cites && e.seq >= n.from[p] {
			found = append(found, citations.StaleCitation{Seq: e.seq, RunID: e.Record.RunID, Subject: e.Record.Subject, SourceID: p.source, ChunkHash: p.chunk, SupersededBy: by, SupersessionKind: how})
		}
	}
	if len(found) > 0 {
		n.from[p] = below
		n.count++
		n.stale[p.source] = append(n.stale[p.source], found...)
	}
}

// sortStale sorts stale citations in the order of ListStaleCitationsOfSource, except that chunks superseded by
// the same event are sorted by hash.
func sortStale(list []citations.StaleCitation) []citations.StaleCitation {
	slices.SortFunc(list, func(a, b citations.StaleCitation) int {
		return cmp.Or(cmp.Compare(b.SupersededBy, a.SupersededBy), strings.Compare(a.ChunkHash, b.ChunkHash), cmp.Compare(b.Seq, a.Seq))
	})
	return list
}

var (
	someSources  = []string{"s1", "s2", "s3"}
	someSubjects = []string{"x", "y"}
	someChunks   = []string{chunkOf("one"), chunkOf("two"), chunkOf("three"), chunkOf("four")}
)

// chunkOf returns the chunk hash of a word.
func chunkOf(word string) string {
	sum := sha256.Sum256([]byte(word))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// drawCitationEvent returns the body of a random event about citations or sources.
func drawCitationEvent(t *rapid.T) string {
	switch few(t, "event", "set", "set", "set", "set", "registered", "revoked", "other") {
	case "set":
		var citations []string
		for range rapid.IntRange(0, 5).Draw(t, "citations") {
			citations = append(citations, citation(few(t, "source", someSources...), few(t, "chunk", someChunks...),
				few(t, "section", `null`, `null`, `""`, `"x"`, `"intro"`)))
		}
		return citationSetOf(few(t, "run", `"r"`, `"r"`, `"q"`, "null"), few(t, "subject", someSubjects...), citations...)
	case "registered":
		list := ""
		if rapid.Bool().Draw(t, "listed") {
			hashes := rapid.SliceOfDistinct(rapid.SampledFrom(someChunks), rapid.ID).Draw(t, "listed chunks")
			quoted, _ := json.Marshal(append([]string{}, hashes...))
			list = `,"chunk_hashes":` + string(quoted)
		}
		return registration(few(t, "source", someSources...), list)
	case "revoked":
		return rawBody("source_revoked", "{}", fmt.Sprintf(`{"reason":"old","source_id":%q}`, few(t, "source", someSources...)))
	}
	return rawBody("path_fingerprint", "{}", `{}`)
}

// citationSet returns the body of a citation set.
func citationSet(subject string, citations ...string) string {
	return citationSetOf(`"r"`, subject, citations...)
}

// citationSetOf is like citationSet, but with the given run_id, which is JSON.
func citationSetOf(run, subject string, citations ...string) string {
	return rawBody("citation_set", "{}", fmt.Sprintf(`{"citations":[%s],"run_id":%s,"subject":%q}`, strings.Join(citations, ","), run, subject))
}

// citation returns one citation of a set. section is JSON.
func citation(source, chunk, section string) string {
	return fmt.Sprintf(`{"chunk_hash":%q,"section":%s,"source_id":%q,"weight":0.5}`, chunk, section, source)
}

func registration(source, list string) string {
	return rawBody("source_registered", "{}", fmt.Sprintf(`{"source_id":%q,"title":"T"%s}`, source, list))
}

// chunkHashes returns the chunks that a set cites.
func chunkHashes(s *citations.Set) []string {
	hashes := make([]string, len(s.Citations))
	for i, c := range s.Citations {
		hashes[i] = c.ChunkHash
	}
	return hashes
}
