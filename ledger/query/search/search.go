// Package search finds the events, hashes, and values in a ledger that a search text may refer to.
// The cost of a search does not grow with the size of the ledger.
package search

import (
	"context"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"colophon/client/wire"
	"colophon/ledger/figures"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/producers"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
	"colophon/ledger/query/prefix"
	"colophon/ledger/record"
)

// These constants bound the cost of a search.
const (
	maxHits     = 50
	maxListed   = 200 // maximum number of models to compare with the text; the same limit applies to projects, sources, and producers
	maxNamed    = 250 // maximum number of prompts whose first words are compared with the text; the same limit applies to inputs and questions
	maxLabelled = 64  // maximum number of label names whose values are compared with the text
)

// searchedLog is the largest log that is searched for hashes by their first digits.
var searchedLog = prefix.Bounds{MaxEvents: 20_000, MaxBytes: 64 << 20}

// Hit is a value that matches the search text. Seq is the seq of an event that contains the value.
type Hit struct {
	// Type is "event" or "event_hash", "label" if Value is the name of a label, or the name of the value,
	// such as "run_id".
	Type, Value string
	Seq         uint64
	DisplayName *wire.ReadableName // nil if no display name is known
}

// search holds the state of one call to Find.
type search struct {
	*index.View
	ctx      context.Context
	names    *figures.NameFinder
	hashes   []string // names of the hashes by which records can be found
	text     string   // the text to search for
	folded   string   // text in lower case
	hits     []Hit
	complete bool
	seen     map[[2]string]bool
	err      error // first error in looking up a display name
}

// Find finds what a text can refer to: an event, a hash, a field value that occurs in records, or
// the first words of a longer text. Exact matches come first. hashes lists the names of the hashes
// by which records can be found. names finds the display names of hits; if it is nil, hits have no
// names. complete is false if the search reached one of its bounds and may have missed hits.
func Find(ctx context.Context, v *index.View, names *figures.NameFinder, hashes []string, text string) (hits []Hit, complete bool, err error) {
	s := &search{View: v, ctx: ctx, names: names, hashes: hashes, text: text, folded: strings.ToLower(text), complete: true, seen: make(map[[2]string]bool)}
	for _, part := range []func() error{s.events, s.digitsOfHashes, s.values, s.labels, s.lists, s.words} {
		if err := errors.Join(part(), s.err); err != nil {
			return nil, false, err
		}
	}
	return s.hits, s.complete, nil
}

// named calls find and returns its result. It returns nil if the search does not look up display
// names, or if an earlier call failed. s.err keeps the first error.
func (s *search) named(find func(*figures.NameFinder) (*wire.ReadableName, error)) *wire.ReadableName {
	if s.names == nil || s.err != nil {
		return nil
	}
	name, err := find(s.names)
	s.err = err
	return name
}

func (s *search) recordName(seq uint64) *wire.ReadableName {
	return s.named(func(n *figures.NameFinder) (*wire.ReadableName, error) { return n.RecordName(s.ctx, seq) })
}

func (s *search) textName(seq uint64, hash string) *wire.ReadableName {
	return s.named(func(n *figures.NameFinder) (*wire.ReadableName, error) { return n.TextName(s.ctx, seq, hash) })
}

// add adds a hit unless it is already listed. If the list already contains maxHits hits, add sets
// complete to false instead.
func (s *search) add(kind, value string, seq uint64, name *wire.ReadableName) {
	key := [2]string{kind, value}
	switch {
	case s.seen[key]:
	case len(s.hits) == maxHits:
		s.complete = false
	default:
		s.seen[key] = true
		s.hits = append(s.hits, Hit{kind, value, seq, name})
	}
}

var digitsForm = regexp.MustCompile(`^[0-9a-f]{8,64}$`)

// digits returns the text in lower case and without "sha256:" if it can be the beginning of a hash,
// and "" otherwise.
func (s *search) digits() string {
	if digits := strings.TrimPrefix(s.folded, "sha256:"); digitsForm.MatchString(digits) {
		return digits
	}
	return ""
}

// events finds events by their seq or their event_hash.
func (s *search) events() error {
	if seq, err := strconv.ParseUint(s.text, 10, 64); err == nil && seq < s.Size() && strconv.FormatUint(seq, 10) == s.text {
		s.add("event", s.text, seq, s.recordName(seq))
	}
	digits := s.digits()
	if digits == "" {
		return nil
	}
	found, err := s.EventsByHashPrefix(s.ctx, digits)
	for _, e := range found {
		s.add("event_hash", hex.EncodeToString(e.Hash[:]), e.Seq, s.recordName(e.Seq))
	}
	return err
}

// digitsOfHashes finds record hashes that equal the text or begin with it.
func (s *search) digitsOfHashes() error {
	digits := s.digits()
	if len(digits) == 64 {
		for _, name := range s.hashes {
			value := digits
			if name == prefix.ChunkHashName {
				value = "sha256:" + digits
			}
			if err := s.exact(name, value); err != nil {
				return err
			}
		}
		return nil
	}
	if digits == "" {
		return nil
	}
	found, err := searchedLog.FindUnderAnyName(s.ctx, s.View, digits, maxHits+1)
	if errors.Is(err, prefix.ErrTooManyHashes) {
		s.complete = false
		return nil
	}
	for _, one := range found {
		s.add(one.Name, one.Hash, one.Seq, s.textName(one.Seq, one.Name))
	}
	return err
}

// searchedValues names the record values that match only if they equal the entire search text.
var searchedValues = []string{"run_id", "subject", "project", "source_id", "producer", "model", "path_id", "evidence_id", "content_fingerprint", records.NameTopic}

// values finds the values of records that equal the text.
func (s *search) values() error {
	for _, name := range searchedValues {
		if err := s.exact(name, s.text); err != nil {
			return err
		}
	}
	return nil
}

// exact adds a hit for the latest record that has the given value, if there is one.
func (s *search) exact(name, value string) error {
	filter := records.Filter{Values: []records.Value{{Name: name, Text: value}}}
	if name == records.NameTopic {
		filter.Kind = record.KindNote
	}
	found, _, err := records.List(s.ctx, s.View, filter, index.PageRequest{Limit: 1})
	if err != nil || len(found) == 0 {
		return err
	}
	seq := found[0].Seq
	if slices.Contains(s.hashes, name) {
		s.add(name, value, seq, s.textName(seq, name))
	} else {
		s.add(name, value, seq, s.recordName(seq))
	}
	return nil
}

// labels finds labels by name=value, by name, or by value alone.
func (s *search) labels() error {
	if name, value, found := strings.Cut(s.text, "="); found && name != "" {
		return s.exact(records.LabelPrefix+strings.TrimPrefix(name, records.LabelPrefix), value)
	}
	names, next, err := groups.ListValues(s.View, groups.LabelListName, index.PageRequest{Limit: maxLabelled})
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.Contains(strings.ToLower(name.Text), s.folded) {
			s.add("label", name.Text, name.Seq, nil)
		}
		if err := s.exact(records.LabelPrefix+name.Text, s.text); err != nil {
			return err
		}
	}
	s.more(next)
	return nil
}

// more sets complete to false if next is not nil, which means that the list has entries that were
// not searched.
func (s *search) more(next []byte) {
	if next != nil {
		s.complete = false
	}
}

// lists finds models, projects, sources, and producers whose names contain the text, and
// sources whose titles contain it. It ignores case.
func (s *search) lists() error {
	page := index.PageRequest{Limit: maxListed}
	take := func(kind, value string, seq uint64) {
		if strings.Contains(strings.ToLower(value), s.folded) {
			s.add(kind, value, seq, nil)
		}
	}
	models, next, err := groups.List(s.ctx, s.View, groups.Query{GroupBy: records.NameModel, AnyState: true}, page)
	for i := range models {
		take("model", models[i].Value, models[i].LastRun.Seq)
	}
	s.more(next)
	if err != nil {
		return err
	}
	projects, next, err := paths.ListProjects(s.View, page)
	for i := range projects {
		take("project", projects[i].Name, projects[i].Seq)
	}
	s.more(next)
	if err != nil {
		return err
	}
	sources, next, err := citations.ListSources(s.ctx, s.View, page)
	for i := range sources {
		take("source_id", sources[i].ID, sources[i].Seq)
		if title := sources[i].Title; title != nil && strings.Contains(strings.ToLower(*title), s.folded) {
			s.add("source_id", sources[i].ID, sources[i].Seq, figures.NameFromText([]byte(*title)))
		}
	}
	s.more(next)
	if err != nil {
		return err
	}
	delivered, next, err := producers.List(s.View, page)
	for i := range delivered {
		take("producer", delivered[i].ID, delivered[i].LatestSeq)
	}
	s.more(next)
	return err
}

// words finds prompts, inputs, and questions by the first words of their texts.
func (s *search) words() error {
	if s.names == nil || !s.names.MayReadContent || utf8.RuneCountInString(s.text) < 2 {
		return nil
	}
	page := index.PageRequest{Limit: maxNamed}
	take := func(by, value string, first, last uint64) {
		if name := s.named(func(n *figures.NameFinder) (*wire.ReadableName, error) { return n.GroupName(s.ctx, by, first, last) }); figures.ContainsWords(name, s.folded) {
			s.add(by, value, last, name)
		}
	}
	for _, by := range [...]string{records.NameSystemPromptHash, records.NameInput} {
		found, next, err := groups.List(s.ctx, s.View, groups.Query{GroupBy: by, AnyState: true}, page)
		if err != nil {
			return err
		}
		for i := range found {
			take(by, found[i].Value, found[i].FirstRun.Seq, found[i].LastRun.Seq)
		}
		s.more(next)
	}
	const question = "question_hash"
	found, next, err := rundags.ListGroups(s.ctx, s.View, rundags.GroupQuery{Field: question, AnyState: true}, page)
	for i := range found {
		take(question, found[i].Value, found[i].FirstRunSeq, found[i].LastRunSeq)
	}
	s.more(next)
	return err
}
