package audit

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// published presents a memory log as a server publishes it, without the data that only the storage
// contains.
type published struct{ *memory }

func (p published) Head(ctx context.Context) (Head, error) {
	head, err := p.memory.Head(ctx)
	return Head{Size: head.Size, Checkpoint: head.Checkpoint}, err
}

// auditor walks a log repeatedly, each time from where the previous walk ended.
type auditor struct {
	at   Position
	past History
	seen []SeenCheckpoint
}

func newAuditor() *auditor { return &auditor{past: newMemoryHistory()} }

func optionsFor(m *memory) Options {
	return Options{Verifiers: []*proofs.Verifier{m.signer.Verifier()}}
}

// walk audits m from where the last walk ended. Unless there is damage, it remembers the new
// position and the checkpoint.
func (a *auditor) walk(t testing.TB, m *memory) *Report {
	t.Helper()
	report, at, err := ExtendWalk(t.Context(), published{m}, optionsFor(m), ExtendOptions{Start: a.at, History: a.past, SeenCheckpoints: a.seen})
	require.NoError(t, err)
	if report.Damage != nil {
		require.Equal(t, a.at, at, "damage does not advance the position")
		return report
	}
	a.at, a.seen = at, []SeenCheckpoint{{report.Checkpoint, "the auditor"}}
	return report
}

// beginning returns a copy of m with only its first size entries and with a checkpoint of that
// size.
func beginning(t testing.TB, m *memory, size int) *memory {
	t.Helper()
	c := m.clone()
	c.entries, c.head.Size = m.entries[:size], uint64(size)
	c.seal(t)
	return c
}

func TestExtendStepByStep(t *testing.T) {
	m := newMemory(t, 900)
	a := newAuditor()
	for _, size := range []int{1, 2, 3, 255, 256, 256, 257, 511, 512, 700, 900} {
		report := a.walk(t, beginning(t, m, size))
		require.Nil(t, report.Damage, "size %d", size)
		require.Equal(t, uint64(size), report.Size)
		require.Equal(t, uint64(size), a.at.Size)
		require.Equal(t, report.Checkpoint.Root, a.at.Root)
	}
	once := newAuditor()
	require.Nil(t, once.walk(t, m).Damage)
	require.Equal(t, positionText(t, once.at), positionText(t, a.at))
}

// positionText returns a position as JSON, so that positions can be compared.
func positionText(t testing.TB, p Position) string {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	return string(text)
}

// ExtendWalk finds the same damage in a published log as WalkLog does, except for damage to data
// that is not published.
func TestExtendFindsDamage(t *testing.T) {
	sound := newMemory(t, 700)
	for _, c := range []mutation{
		{"body", flipBit(100, 42), DamageKindEntry, 100, ""},
		{"last", flipBit(699, 42), DamageKindEntry, 699, ""},
		{"last hash", flipTile(0, 2, 187), DamageKindTile, 699, "tile/0/002.p/188"},
		{"level 1", flipTile(1, 0, 1), DamageKindTile, 256, "tile/1/000.p/2"},
		{"edge longer than the head", setTile(0, 2, func(b []byte) []byte { return append(b, b[:32]...) }), DamageKindTile, 700, "tile/0/002.p/188"},
		{"link changed with tree and signature", inOrder(flipBit(100, 3), seal), DamageKindChain, 100, ""},
		{"one missing", func(_ *testing.T, m *memory) { m.entries[300] = nil }, DamageKindTruncation, 300, ""},
		{"of another root", func(t *testing.T, m *memory) { m.sign(t, m.signer, proofs.Hash{}) }, DamageKindRoot, 700, ""},
		{"result", editBody(100, `"result":"claimed"`, `"result":"match"`), DamageKindCheck, 100, ""},
		{"redacts what has no content", editBodyAndDigest(120, `[114,117]`, `[113,117]`), DamageKindRedaction, 120, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := sound.clone()
			c.change(t, m)
			damage := newAuditor().walk(t, m).Damage
			require.NotNil(t, damage)
			require.Equal(t, []any{c.kind, c.seq, c.tile}, []any{damage.Kind, damage.Seq, damage.TilePath}, "%v", damage)
		})
	}
}

// An auditor that walks a log again detects that the log has become shorter or has been replaced by
// a different one.
func TestExtendComparesWithSeenCheckpoints(t *testing.T) {
	m := newMemory(t, 900)
	other := func(from, size int) *memory {
		c := m.clone()
		editBody(from, `"actor":"lab"`, `"actor":"lob"`)(t, c)
		return beginning(t, c, size)
	}
	for _, c := range []struct {
		name   string
		first  int // size of the log at the first walk
		second *memory
		kind   DamageKind
		seq    uint64
	}{
		{"grown", 700, m, "", 0},
		{"as it was", 700, beginning(t, m, 700), "", 0},
		{"earlier", 700, beginning(t, m, 699), DamageKindRollback, 699},
		{"much earlier", 700, beginning(t, m, 1), DamageKindRollback, 1},
		{"other tree of that size", 700, other(301, 700), DamageKindFork, 301},
		{"other last entry", 701, other(700, 701), DamageKindFork, 700},
		{"grown after a fork", 700, other(301, 900), DamageKindFork, 301},
		{"grown after a fork at a tile's end", 700, other(256, 900), DamageKindFork, 256},
		{"grown after a fork at the first", 700, other(1, 900), DamageKindFork, 1},
		{"fork after what was seen", 700, other(701, 900), "", 0},
		{"earlier, after a fork", 700, other(301, 650), DamageKindFork, 301},
		{"earlier than the fork", 700, other(301, 301), DamageKindRollback, 301},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAuditor()
			require.Nil(t, a.walk(t, beginning(t, m, c.first)).Damage)
			damage := a.walk(t, c.second).Damage
			if c.kind == "" {
				require.Nil(t, damage)
				return
			}
			require.NotNil(t, damage)
			require.Equal(t, []any{c.kind, c.seq}, []any{damage.Kind, damage.Seq}, "%v", damage)
		})
	}
}

// ExtendWalk finds the first changed entry of a fork even if the changed leaf is covered by a full
// tile of level 1.
func TestForkOfALargeLog(t *testing.T) {
	m := newMemory(t, 66_000)
	a := newAuditor()
	require.Nil(t, a.walk(t, beginning(t, m, 65_900)).Damage)
	require.Nil(t, a.walk(t, beginning(t, m, 65_950)).Damage)
	editBody(40_000, `"actor":"lab"`, `"actor":"lob"`)(t, m)
	damage := a.walk(t, m).Damage
	require.NotNil(t, damage)
	require.Equal(t, []any{DamageKindFork, uint64(40_000)}, []any{damage.Kind, damage.Seq}, "%v", damage)
}

// The walk compares the log with checkpoints that other parties saw, whether or not earlier walks
// covered those sizes.
func TestSeenByOthers(t *testing.T) {
	m := newMemory(t, 700)
	fork := m.clone()
	editBody(301, `"actor":"lab"`, `"actor":"lob"`)(t, fork)
	seenOf := func(m *memory, size int) []SeenCheckpoint {
		c, err := proofs.OpenCheckpoint(beginning(t, m, size).head.Checkpoint, m.signer.Verifier())
		require.NoError(t, err)
		return []SeenCheckpoint{{c, "a witness"}}
	}
	for _, walked := range []int{0, 1, 500, 700} {
		for _, c := range []struct {
			seen []SeenCheckpoint
			kind DamageKind
			seq  uint64
		}{
			{seenOf(m, 1), "", 0},
			{seenOf(m, 500), "", 0},
			{seenOf(m, 700), "", 0},
			{seenOf(fork, 301), "", 0},
			{seenOf(fork, 302), DamageKindFork, 302},
			{seenOf(newMemory(t, 800), 800), DamageKindRollback, 700},
		} {
			a := newAuditor()
			if walked > 0 {
				require.Nil(t, a.walk(t, beginning(t, m, walked)).Damage)
			}
			a.seen = append(a.seen, c.seen...)
			damage := a.walk(t, m).Damage
			if c.kind == "" {
				require.Nil(t, damage)
				continue
			}
			require.NotNil(t, damage, "%d walked, %d seen", walked, c.seen[0].Size)
			require.Equal(t, []any{c.kind, c.seq}, []any{damage.Kind, damage.Seq}, "%v", damage)
		}
	}
	a := newAuditor()
	a.seen = []SeenCheckpoint{{proofs.Checkpoint{Origin: "elsewhere.example", Size: 5}, "a witness"}}
	require.Equal(t, DamageKindCheckpoint, a.walk(t, m).Damage.Kind)
}

// A walk checks each use of an idempotency key against the uses that earlier walks found. The order
// of the uses does not matter.
func TestKeysAcrossWalks(t *testing.T) {
	base := newMemory(t, 300)
	key := func(seq uint64) *proofs.Hash { k := testKey(seq); return &k }
	claim := func(seq uint64, key *proofs.Hash) func(*memory) {
		return func(m *memory) {
			m.add(testRecord(t, seq, "").AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: key}))
		}
	}
	refuse := func(seq, first uint64, key *proofs.Hash) func(*memory) {
		return func(m *memory) {
			m.add(testRecord(t, seq, "").AppendRefusal(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: key}, record.RefusalKeyConflict, first))
		}
	}
	for _, c := range []struct {
		name string
		more []func(*memory)
		seq  uint64
		fine bool
	}{
		{"new key", []func(*memory){claim(1000, key(1000))}, 0, true},
		{"refused for a key that was claimed", []func(*memory){refuse(1000, 100, key(100))}, 0, true},
		{"claimed again", []func(*memory){claim(1000, key(1000)), claim(1001, key(100))}, 301, false},
		{"claimed twice", []func(*memory){claim(1000, key(1000)), claim(1001, key(1000))}, 301, false},
		{"refused for a key that no event holds", []func(*memory){claim(1000, key(1000)), refuse(1001, 100, key(1001))}, 301, false},
		{"refused for another's key", []func(*memory){refuse(1001, 95, key(100))}, 300, false},
		{"the same record refused", []func(*memory){refuse(100, 100, key(100))}, 300, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := base.clone()
			a := newAuditor()
			require.Nil(t, a.walk(t, m).Damage)
			for _, add := range c.more {
				add(m)
			}
			m.head.Size = uint64(len(m.entries))
			m.seal(t)
			for _, auditor := range []*auditor{a, newAuditor()} {
				damage := auditor.walk(t, m).Damage
				if c.fine {
					require.Nil(t, damage)
					continue
				}
				require.NotNil(t, damage)
				require.Equal(t, []any{DamageKindKey, c.seq}, []any{damage.Kind, damage.Seq}, "%v", damage)
			}
		})
	}
}

// ExtendOptions.OnEntry receives every entry once, and a later walk can begin at a position passed to
// ExtendOptions.OnVerified.
func TestExtendReportsEntries(t *testing.T) {
	m := newMemory(t, 2*reachedStep+100)
	a := newAuditor()
	next := uint64(0)
	stop := errors.New("the caller stops the walk")
	each := func(e WalkedEntry) error {
		require.Equal(t, next, e.Seq)
		require.Equal(t, m.entries[next], e.Entry)
		require.Equal(t, fmt.Sprint(next), string(e.ParsedBody.Member("seq").Raw()))
		next++
		return nil
	}
	_, at, err := ExtendWalk(t.Context(), published{m}, optionsFor(m), ExtendOptions{History: a.past, OnEntry: each, OnVerified: func(p Position) error {
		require.Equal(t, next, p.Size)
		a.at = p
		return stop
	}})
	require.ErrorIs(t, err, stop)
	require.Zero(t, at.Size)
	require.Equal(t, uint64(reachedStep), a.at.Size)
	require.Equal(t, proofs.Hash(sha256.Sum256(m.entries[reachedStep-1])), a.at.Tip)
	next = reachedStep
	reached := 0
	report, at, err := ExtendWalk(t.Context(), published{m}, optionsFor(m), ExtendOptions{Start: a.at, History: a.past, OnEntry: each, OnVerified: func(Position) error {
		reached++
		return nil
	}})
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.Equal(t, m.head.Size, at.Size)
	require.Equal(t, 1, reached)
}

// If the tiles in the History do not yield the root in the position, ExtendWalk returns an error.
func TestIncompleteHistory(t *testing.T) {
	m := newMemory(t, 700)
	a := newAuditor()
	require.Nil(t, a.walk(t, m).Damage)
	for name, x := range map[string]ExtendOptions{
		"nothing":      {Start: a.at, History: newMemoryHistory()},
		"another root": {Start: Position{Size: 600, Root: a.at.Root}, History: a.past},
	} {
		_, _, err := ExtendWalk(t.Context(), published{m}, optionsFor(m), x)
		require.ErrorContains(t, err, "the stored tiles of", name)
	}
}

func TestUnavailableLog(t *testing.T) {
	m := newMemory(t, 700)
	for _, what := range []string{"head", "tile", "entry"} {
		for after := 0; ; after += 1 + after/4 {
			left := after
			c := m.clone()
			c.fail = func(asked string) error {
				if asked == what {
					if left--; left < 0 {
						return fmt.Errorf("the network is down: %w", ErrUnavailable)
					}
				}
				return nil
			}
			_, _, err := ExtendWalk(t.Context(), published{c}, optionsFor(c), ExtendOptions{History: newMemoryHistory()})
			if left >= 0 {
				require.NoError(t, err)
				break
			}
			require.ErrorIs(t, err, ErrUnavailable, "%s, time %d", what, after)
		}
	}
}

// ExtendWalk returns an error if the EventFlags that a History stores for an event contain an unknown
// kind.
func TestDamagedEventFlags(t *testing.T) {
	m := newMemory(t, 180)
	for _, flags := range []EventFlags{0, EventFlags(len(record.EventKinds)) + 1, 0x0f | hasContent} {
		a := newAuditor()
		require.Nil(t, a.walk(t, beginning(t, m, 115)).Damage)
		a.past.(*memoryHistory).flags[114] = flags // event 120 redacts record 114
		_, _, err := ExtendWalk(t.Context(), published{m}, optionsFor(m), ExtendOptions{Start: a.at, History: a.past, SeenCheckpoints: a.seen})
		require.ErrorContains(t, err, "the stored flags of event 114 are damaged")
	}
}
