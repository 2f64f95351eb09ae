package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// In a log from newMemory, event 120 redacts records 114 and 117. Each of them has its own output,
// and both have the system prompt, which other records also need.

func outputOf(seq int) proofs.Hash { return sha256.Sum256(fmt.Appendf(nil, "output %d", seq)) }

func setRedacted(seq, by uint64) func(*testing.T, *memory) {
	return func(_ *testing.T, m *memory) { m.redacted[seq] = by }
}

// restored returns a change that stores the output of the record at seq again. Unless need is 0,
// the change also stores a reference to the output from the record at need.
func restored(seq int, need uint64) func(*testing.T, *memory) {
	return func(_ *testing.T, m *memory) {
		m.contents[outputOf(seq)] = fmt.Appendf(nil, "output %d", seq)
		if need > 0 {
			m.needs[outputOf(seq)] = []uint64{need}
		}
	}
}

func TestDamagedRedactions(t *testing.T) {
	lost := func(seq uint64) func(*testing.T, *memory) {
		return func(_ *testing.T, m *memory) { delete(m.redacted, seq) }
	}
	testDamage(t, 300, []mutation{
		{"erased without a redaction", lost(114), DamageKindContent, 114, ""},
		{"no row, content there", inOrder(lost(114), restored(114, 114), func(_ *testing.T, m *memory) {
			shared := sha256.Sum256([]byte(systemPrompt))
			m.needs[shared] = append(slices.Clone(m.needs[shared]), 114)
		}), DamageKindRedaction, 120, ""},
		{"no event", setRedacted(99, 290), DamageKindRedaction, 99, ""},
		{"another event", setRedacted(114, 180), DamageKindRedaction, 114, ""},
		{"event of another list", setRedacted(111, 120), DamageKindRedaction, 111, ""},
		{"an earlier event", setRedacted(114, 60), DamageKindRedaction, 114, ""},
		{"itself", setRedacted(114, 114), DamageKindRedaction, 114, ""},
		{"beyond the head", setRedacted(114, 300), DamageKindRedaction, 114, ""},
		{"far beyond the head", setRedacted(114, 1<<63), DamageKindRedaction, 114, ""},
		{"of what has no content", setRedacted(100, 290), DamageKindRedaction, 100, ""},
		{"not the first", func(t *testing.T, m *memory) {
			editBodyAndDigest(180, `[174,177]`, `[114,177]`)(t, m)
			m.redacted[114] = 180
			delete(m.redacted, 174)
			restored(174, 174)(t, m)
		}, DamageKindRedaction, 120, ""},
		{"not erased", restored(114, 0), DamageKindContent, 114, ""},
		{"kept for the redacted", restored(114, 114), DamageKindContent, 114, ""},
		{"kept for another that is redacted", restored(114, 117), DamageKindContent, 114, ""},
		{"kept for one that does not name it", restored(114, 3), DamageKindContent, 114, ""},
		{"kept for one that is not there", restored(114, 1000), DamageKindContent, 114, ""},
		{"kept for no record", func(_ *testing.T, m *memory) { delete(m.needs, outputOf(99)) }, DamageKindContent, 99, ""},
		{"kept for later records only", func(_ *testing.T, m *memory) {
			shared := sha256.Sum256([]byte(systemPrompt))
			m.needs[shared] = m.needs[shared][1:]
		}, DamageKindContent, 3, ""},
		{"not kept for one in between", func(_ *testing.T, m *memory) {
			shared := sha256.Sum256([]byte(systemPrompt))
			m.needs[shared] = slices.DeleteFunc(slices.Clone(m.needs[shared]), func(s uint64) bool { return s == 99 })
		}, DamageKindContent, 99, ""},
		{"of a record to come", setRedacted(300, 5), DamageKindRedaction, 300, ""},
		{"of a record far beyond the head", setRedacted(1<<63, 1<<63+1), DamageKindRedaction, 1 << 63, ""},
		{"missing, but needed", func(_ *testing.T, m *memory) {
			delete(m.contents, sha256.Sum256([]byte(systemPrompt)))
		}, DamageKindContent, 3, ""},
		{"list not canonical", editBodyAndDigest(120, `[114,117]`, `[117,114]`), DamageKindEvent, 120, ""},
		{"list of another type", editBodyAndDigest(120, `[114,117]`, `"114"`), DamageKindEvent, 120, ""},
		{"list without end", editBodyAndDigest(120, `[114,117]`, `[[0,18446744073709551615]]`), DamageKindEvent, 120, ""},
		{"list of what follows", editBodyAndDigest(120, `[114,117]`, `[114,117,121]`), DamageKindEvent, 120, ""},
		{"list of itself", editBodyAndDigest(120, `[114,117]`, `[114,117,120]`), DamageKindEvent, 120, ""},
		// Damage in an event that was read out of order is still reported at that event.
		{"changed redaction", flipBit(120, 100), DamageKindEntry, 120, ""},
		{"shortened redaction", func(_ *testing.T, m *memory) { m.entries[120] = m.entries[120][:60] }, DamageKindEntry, 120, ""},
		{"missing redaction", func(_ *testing.T, m *memory) { m.entries[120] = nil }, DamageKindTruncation, 120, ""},
	})
}

// WalkLog accepts a record that several events redact. Storage names the first of these events.
func TestRedactedTwice(t *testing.T) {
	m := newMemory(t, 300)
	editBodyAndDigest(180, `[174,177]`, `[114,174,177]`)(t, m)
	require.Nil(t, walked(t, m).Damage)
}

// Content that a redacted record shares with another record is kept, no matter which record
// comes first.
func TestSharedContentOfRedactedRecords(t *testing.T) {
	for _, other := range []uint64{99, 126} {
		m := newMemory(t, 300)
		own := outputOf(int(other))
		delete(m.needs, own)
		delete(m.contents, own)
		restored(114, other)(t, m)
		r := testRecord(t, other, fmt.Sprintf(`"system_prompt":%q,"output":"output 114"`, systemPrompt))
		body := r.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default"})
		m = m.altered(t, int(other), record.AppendBodySuffixWithTime(body, other, bodyOf(t, m.entries[other]).Member("time").Text()))
		require.Nil(t, walked(t, m).Damage)
	}
}

// WalkLog reports no damage if records are redacted during the walk.
func TestRedactionBeyondTheWalk(t *testing.T) {
	small, large := newMemory(t, 120), newMemory(t, 300)
	grown := large.clone()
	grown.head = small.head
	asked := 0
	grown.fail = func(what string) error {
		if what == "head" {
			if asked++; asked == 1 {
				grown.head = large.head // takes effect at the second read
			}
		}
		return nil
	}
	report := walked(t, grown)
	require.Nil(t, report.Damage)
	require.Equal(t, uint64(2*2+2*2), report.RedactedContentCount)
}

// readAhead is a source that has read all redactions before they were made. It notices them only after
// Refresh.
type readAhead struct {
	*memory
	outdated bool
}

func (r *readAhead) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	if r.outdated {
		return 0, ErrNotFound
	}
	return r.memory.RedactingSeq(ctx, seq)
}

func (r *readAhead) Refresh() { r.outdated = false }

// If records are redacted after a source has read ahead, WalkLog reports no damage and counts every piece
// of content once. Real damage is still reported.
func TestRedactionAfterReadingAhead(t *testing.T) {
	m := newMemory(t, 300)
	want := walked(t, m)
	require.Nil(t, want.Damage)
	got, err := WalkLog(t.Context(), &readAhead{m, true}, optionsFor(m))
	require.NoError(t, err)
	require.Equal(t, want, got)

	delete(m.contents, outputOf(99))
	got, err = WalkLog(t.Context(), &readAhead{m, true}, optionsFor(m))
	require.NoError(t, err)
	require.NotNil(t, got.Damage)
	require.Equal(t, walked(t, m), got)
}

// redactedBetween is a source in which each record is redacted just after the walk has first asked whether it is.
type redactedBetween struct {
	*memory
	asked map[uint64]bool
}

func (r *redactedBetween) RedactingSeq(ctx context.Context, seq uint64) (uint64, error) {
	if !r.asked[seq] {
		r.asked[seq] = true
		return 0, ErrNotFound
	}
	return r.memory.RedactingSeq(ctx, seq)
}

func (*redactedBetween) Refresh() {}

// WalkLog reports no damage if records are redacted while it checks them.
func TestRedactionBetweenReads(t *testing.T) {
	m := newMemory(t, 300)
	got, err := WalkLog(t.Context(), &redactedBetween{m, make(map[uint64]bool)}, optionsFor(m))
	require.NoError(t, err)
	require.Equal(t, walked(t, m), got)
}

// A walk finds no damage in a log that has more redactions than the walk keeps in memory
// (maxLists).
func TestRedactionListsAreBounded(t *testing.T) {
	m := newMemory(t, 60*(2*maxLists+1))
	w, err := newWalk(t.Context(), m, m, optionsFor(m), ExtendOptions{})
	require.NoError(t, err)
	report, err := w.run()
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.Equal(t, uint64(2*2*2*maxLists), report.RedactedContentCount)
	require.LessOrEqual(t, len(w.content.redactions.lists), maxLists)
}
