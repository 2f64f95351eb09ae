package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// walked calls WalkLog on m, trusting only the log's own key, and returns the report.
func walked(t testing.TB, m *memory) *Report {
	t.Helper()
	report, err := WalkLog(t.Context(), m, Options{Verifiers: []*proofs.Verifier{testSigner(t, testOrigin, 1).Verifier()}})
	require.NoError(t, err)
	return report
}

func TestSoundLogs(t *testing.T) {
	for _, size := range []int{0, 1, 2, 255, 256, 257, 511, 512, 513, 700} {
		m := newMemory(t, size)
		if size == 0 {
			m.head.Checkpoint = nil
		}
		report := walked(t, m)
		require.Nil(t, report.Damage, "size %d", size)
		require.Equal(t, uint64(size), report.Size)
		require.Equal(t, uint64(size), report.Checkpoint.Size)
		if size == 700 {
			const redactions = 11
			require.Equal(t, uint64(2*(size/3-3*redactions)), report.ContentCount)
			require.Equal(t, uint64(2*2*redactions), report.RedactedContentCount)
			require.Greater(t, report.KeyUses, uint64(len(m.keys)), "claims and refusals are both uses")
		}
	}
	require.Nil(t, walked(t, newMemory(t, 0)).Damage, "a signed checkpoint of an empty log")
}

// mutation describes how to damage a log, and the damage that must then be reported.
type mutation struct {
	name   string
	change func(t *testing.T, m *memory)
	kind   DamageKind
	seq    uint64
	tile   string
}

// testDamage checks that each mutation of a valid log of the given size is reported as the expected
// damage.
func testDamage(t *testing.T, size int, mutations []mutation) {
	sound := newMemory(t, size)
	require.Nil(t, walked(t, sound).Damage)
	for _, c := range mutations {
		t.Run(c.name, func(t *testing.T) {
			m := sound.clone()
			c.change(t, m)
			report := walked(t, m)
			require.NotNil(t, report.Damage)
			require.Equal(t, c.kind, report.Damage.Kind, "%v", report.Damage)
			require.Equal(t, c.seq, report.Damage.Seq, "%v", report.Damage)
			require.Equal(t, c.tile, report.Damage.TilePath, "%v", report.Damage)
			require.NotEmpty(t, report.Damage.Message)
		})
	}
}

// flipBit returns a mutation that changes one bit of the byte at offset at in an entry. If at is less
// than 32, that byte is part of the entry's prev_event_hash.
func flipBit(seq, at int) func(*testing.T, *memory) {
	return func(_ *testing.T, m *memory) {
		m.entries[seq] = slices.Clone(m.entries[seq])
		m.entries[seq][at] ^= 1
	}
}

func flipTile(level uint8, index uint64, slot int) func(*testing.T, *memory) {
	return func(t *testing.T, m *memory) {
		id := tileID{level, index}
		require.Contains(t, m.tiles, id)
		m.tiles[id] = slices.Clone(m.tiles[id])
		m.tiles[id][slot*proofs.HashSize+7] ^= 1
	}
}

func setTile(level uint8, index uint64, change func([]byte) []byte) func(*testing.T, *memory) {
	return func(t *testing.T, m *memory) {
		id := tileID{level, index}
		require.Contains(t, m.tiles, id)
		if value := change(slices.Clone(m.tiles[id])); value != nil {
			m.tiles[id] = value
		} else {
			delete(m.tiles, id)
		}
	}
}

func swap(seq int) func(*testing.T, *memory) {
	return func(_ *testing.T, m *memory) {
		m.entries[seq], m.entries[seq+1] = m.entries[seq+1], m.entries[seq]
	}
}

// editBody returns a mutation that replaces text in the body of an entry and recomputes the chain, the
// tiles, and the checkpoint, so that only the event is damaged.
func editBody(seq int, from, to string) func(*testing.T, *memory) {
	return func(t *testing.T, m *memory) {
		require.Contains(t, string(m.entries[seq]), from)
		m.entries[seq] = bytes.Replace(m.entries[seq], []byte(from), []byte(to), 1)
		m.relink(seq)
		m.seal(t)
	}
}

// editBodyAndDigest is like editBody, but also recomputes the event's digest, which covers the replaced
// text.
func editBodyAndDigest(seq int, from, to string) func(*testing.T, *memory) {
	return inOrder(editBody(seq, from, to), func(t *testing.T, m *memory) {
		var d pyjson.Document
		require.NoError(t, d.Parse(m.entries[seq][proofs.HashSize:]))
		r := d.Root().Member("record")
		editBody(seq, string(r.Member("digest").Text()), fmt.Sprintf("%x", digestOf(r, "digest", "idempotency_key")))(t, m)
	})
}

// inOrder returns a mutation that makes several changes in order.
func inOrder(changes ...func(*testing.T, *memory)) func(*testing.T, *memory) {
	return func(t *testing.T, m *memory) {
		for _, change := range changes {
			change(t, m)
		}
	}
}

func retile(t *testing.T, m *memory) { m.retile(t) }
func seal(t *testing.T, m *memory)   { m.seal(t) }

func relink(seq int) func(*testing.T, *memory) {
	return func(_ *testing.T, m *memory) { m.relink(seq) }
}

func TestChangedEntries(t *testing.T) {
	testDamage(t, 700, []mutation{
		{"first", flipBit(0, 42), DamageKindEntry, 0, ""},
		{"body", flipBit(100, 42), DamageKindEntry, 100, ""},
		{"prev", flipBit(100, 3), DamageKindEntry, 100, ""},
		{"last of a tile", flipBit(255, 42), DamageKindEntry, 255, ""},
		{"first of a tile", flipBit(256, 42), DamageKindEntry, 256, ""},
		{"last", flipBit(699, 42), DamageKindEntry, 699, ""},
		{"shortened", func(_ *testing.T, m *memory) { m.entries[9] = m.entries[9][:60] }, DamageKindEntry, 9, ""},
		{"emptied", func(_ *testing.T, m *memory) { m.entries[9] = []byte{} }, DamageKindEntry, 9, ""},
		{"too long", func(_ *testing.T, m *memory) { m.entries[9] = make([]byte, proofs.MaxEntryBytes+1) }, DamageKindEntry, 9, ""},
		{"swapped pair", swap(100), DamageKindEntry, 100, ""},
		{"swapped over a tile's end", swap(255), DamageKindEntry, 255, ""},
		{"swapped last pair", swap(698), DamageKindEntry, 698, ""},
		{"rewritten with the chain", inOrder(flipBit(100, 42), relink(100)), DamageKindEntry, 100, ""},
		{"changed, and a tile too", inOrder(flipBit(100, 42), flipTile(1, 0, 0)), DamageKindEntry, 100, ""},
		{"prev changed, and a tile too, chain after it rewritten", inOrder(flipBit(100, 3), relink(100), flipTile(1, 0, 0)), DamageKindEntry, 100, ""},
		{"changed, and the next missing", inOrder(flipBit(100, 42), flipTile(1, 0, 0),
			func(_ *testing.T, m *memory) { m.entries[101] = nil }), DamageKindEntry, 100, ""},
	})
}

// If entries and their level-0 tiles have been rewritten but the level-1 tile still yields the
// signed root, WalkLog reports the first entry that the mismatched level-1 hash covers.
func TestRewrittenLog(t *testing.T) {
	testDamage(t, 512, []mutation{{"from entry 302", func(t *testing.T, m *memory) {
		above, signed := m.tiles[tileID{1, 0}], m.head.Checkpoint
		editBody(302, `"lab"`, `"lob"`)(t, m)
		m.tiles[tileID{1, 0}], m.head.Checkpoint = above, signed
	}, DamageKindEntry, 256, ""}})
}

func TestBrokenChains(t *testing.T) {
	testDamage(t, 700, []mutation{
		{"link changed with the tree", inOrder(flipBit(100, 3), retile), DamageKindChain, 100, ""},
		{"link changed with tree and signature", inOrder(flipBit(100, 3), seal), DamageKindChain, 100, ""},
		{"link of the first", inOrder(flipBit(0, 3), seal), DamageKindChain, 0, ""},
		{"body changed with the tree", inOrder(flipBit(100, 42), retile), DamageKindChain, 101, ""},
		{"body changed with the tree, end of a tile", inOrder(flipBit(255, 42), retile), DamageKindChain, 256, ""},
		{"swapped pair with tree and signature", inOrder(swap(100), seal), DamageKindChain, 100, ""},
		{"entry removed with tree and signature", func(t *testing.T, m *memory) {
			m.entries = slices.Delete(m.entries, 100, 101)
			m.head.Size--
			m.seal(t)
		}, DamageKindChain, 100, ""},
	})
}

func TestChangedTiles(t *testing.T) {
	testDamage(t, 700, []mutation{
		{"full", flipTile(0, 0, 100), DamageKindTile, 100, "tile/0/000"},
		{"first hash of a tile", flipTile(0, 1, 0), DamageKindTile, 256, "tile/0/001"},
		{"last hash of a tile", flipTile(0, 1, 255), DamageKindTile, 511, "tile/0/001"},
		{"edge", flipTile(0, 2, 3), DamageKindTile, 515, "tile/0/002.p/188"},
		{"last hash", flipTile(0, 2, 187), DamageKindTile, 699, "tile/0/002.p/188"},
		{"level 1", flipTile(1, 0, 0), DamageKindTile, 0, "tile/1/000.p/2"},
		{"level 1, last hash", flipTile(1, 0, 1), DamageKindTile, 256, "tile/1/000.p/2"},
		{"missing", setTile(0, 1, func([]byte) []byte { return nil }), DamageKindTile, 256, "tile/0/001"},
		{"missing edge", setTile(0, 2, func([]byte) []byte { return nil }), DamageKindTile, 512, "tile/0/002.p/188"},
		{"missing level 1", setTile(1, 0, func([]byte) []byte { return nil }), DamageKindTile, 0, "tile/1/000.p/2"},
		{"short", setTile(0, 1, func(b []byte) []byte { return b[:32*9] }), DamageKindTile, 265, "tile/0/001"},
		{"short level 1", setTile(1, 0, func(b []byte) []byte { return b[:32] }), DamageKindTile, 256, "tile/1/000.p/2"},
		{"empty", setTile(0, 1, func([]byte) []byte { return []byte{} }), DamageKindTile, 256, "tile/0/001"},
		{"ragged", setTile(0, 1, func(b []byte) []byte { return b[:32*9+1] }), DamageKindTile, 256, "tile/0/001"},
		{"too long", setTile(0, 1, func(b []byte) []byte { return append(b, b[:32]...) }), DamageKindTile, 256, "tile/0/001"},
		{"edge longer than the head", setTile(0, 2, func(b []byte) []byte { return append(b, b[:32]...) }), DamageKindTile, 700, "tile/0/002.p/188"},
		{"level 1 longer than the head", setTile(1, 0, func(b []byte) []byte { return append(b, b[:32]...) }), DamageKindTile, 512, "tile/1/000.p/2"},
		{"two tiles swapped", func(_ *testing.T, m *memory) {
			m.tiles[tileID{0, 0}], m.tiles[tileID{0, 1}] = m.tiles[tileID{0, 1}], m.tiles[tileID{0, 0}]
		}, DamageKindTile, 0, "tile/0/000"},
	})
}

func TestDamageNamesItsPlace(t *testing.T) {
	require.EqualError(t, tileDamaged(proofs.TilePath{Level: 1, Index: 2, Width: 7}, 3, "why %d", 1),
		"tile: tile/1/002.p/7, at entry 131840: why 1")
	require.EqualError(t, damaged(DamageKindChain, 5, "why"), "chain: at entry 5: why")
}

// WalkLog finds the damaged tile or entry even in a log that has a full tile on level 1.
func TestDamageInLargeLog(t *testing.T) {
	testDamage(t, 65536+300, []mutation{
		{"full tile of level 1", flipTile(1, 0, 200), DamageKindTile, 200 * 256, "tile/1/000"},
		{"level 2", flipTile(2, 0, 0), DamageKindTile, 0, "tile/2/000.p/1"},
		{"entry below a full tile", flipBit(60_000, 42), DamageKindEntry, 60_000, ""},
		{"tile below a full tile", flipTile(0, 200, 5), DamageKindTile, 200*256 + 5, "tile/0/200"},
	})
}

func TestTruncatedLogs(t *testing.T) {
	testDamage(t, 700, []mutation{
		{"last missing", func(_ *testing.T, m *memory) { m.entries = m.entries[:699] }, DamageKindTruncation, 699, ""},
		{"last unreadable", func(_ *testing.T, m *memory) { m.entries[699] = nil }, DamageKindTruncation, 699, ""},
		{"one missing", func(_ *testing.T, m *memory) { m.entries[300] = nil }, DamageKindTruncation, 300, ""},
		{"all missing", func(_ *testing.T, m *memory) { m.entries = nil }, DamageKindTruncation, 0, ""},
		{"head of 2^60 entries", func(_ *testing.T, m *memory) { m.head.Size = 1 << 60 }, DamageKindTruncation, 700, ""},
		{"head of 2^64-1 entries", func(_ *testing.T, m *memory) { m.head.Size = 1<<64 - 1 }, DamageKindTruncation, 700, ""},
		{"head and entries cut, tiles kept", func(_ *testing.T, m *memory) {
			m.entries, m.head.Size = m.entries[:650], 650
		}, DamageKindTile, 650, "tile/0/002.p/138"},
		{"all but the checkpoint cut", func(t *testing.T, m *memory) {
			m.entries, m.head.Size = m.entries[:650], 650
			m.retile(t)
		}, DamageKindTruncation, 650, ""},
		{"all but the checkpoint gone", func(_ *testing.T, m *memory) {
			m.entries, m.tiles, m.head.Size, m.head.Tip, m.head.TimeMicros = nil, nil, 0, proofs.Hash{}, 0
		}, DamageKindTruncation, 0, ""},
	})
}

func TestReplacedCheckpoints(t *testing.T) {
	older := newMemory(t, 650).head.Checkpoint
	root := newMemory(t, 650).retile(t)
	testDamage(t, 700, []mutation{
		{"older", func(_ *testing.T, m *memory) { m.head.Checkpoint = older }, DamageKindCheckpoint, 700, ""},
		{"missing", func(_ *testing.T, m *memory) { m.head.Checkpoint = nil }, DamageKindCheckpoint, 700, ""},
		{"malformed", func(_ *testing.T, m *memory) { m.head.Checkpoint = []byte("x") }, DamageKindCheckpoint, 700, ""},
		{"of another root", func(t *testing.T, m *memory) { m.sign(t, m.signer, root) }, DamageKindRoot, 700, ""},
		{"by another key", func(t *testing.T, m *memory) { m.sign(t, testSigner(t, testOrigin, 2), m.retile(t)) }, DamageKindSignature, 700, ""},
		{"of another log", func(t *testing.T, m *memory) { m.sign(t, testSigner(t, "other.example", 1), m.retile(t)) }, DamageKindSignature, 700, ""},
		{"changed", func(_ *testing.T, m *memory) {
			m.head.Checkpoint = bytes.Replace(m.head.Checkpoint, []byte("\n700\n"), []byte("\n701\n"), 1)
		}, DamageKindSignature, 700, ""},
		{"rewritten log and tiles", func(t *testing.T, m *memory) {
			signed := m.head.Checkpoint
			editBody(101, `"lab"`, `"lob"`)(t, m)
			m.head.Checkpoint = signed
		}, DamageKindRoot, 700, ""},
	})
}

func TestDamagedHead(t *testing.T) {
	testDamage(t, 700, []mutation{
		{"tip", func(_ *testing.T, m *memory) { m.head.Tip[0] ^= 1 }, DamageKindHead, 700, ""},
		{"time", func(_ *testing.T, m *memory) { m.head.TimeMicros++ }, DamageKindHead, 700, ""},
	})
}

func TestDamagedContentAndKeys(t *testing.T) {
	digest := func(seq int) proofs.Hash { return sha256.Sum256(fmt.Appendf(nil, "output %d", seq)) }
	testDamage(t, 300, []mutation{
		{"altered", func(_ *testing.T, m *memory) { m.contents[digest(99)] = []byte("output 98") }, DamageKindContent, 99, ""},
		{"missing", func(_ *testing.T, m *memory) { delete(m.contents, digest(99)) }, DamageKindContent, 99, ""},
		{"shared, missing", func(_ *testing.T, m *memory) { delete(m.contents, sha256.Sum256([]byte(systemPrompt))) }, DamageKindContent, 3, ""},
		{"size wrong", editBody(99, `"size":9`, `"size":8`), DamageKindContent, 99, ""},
		{"size of shared content wrong", editBody(99, `"size":17`, `"size":18`), DamageKindContent, 99, ""},
		{"digest malformed", editBody(99, `"sha256":"`, `"sha256":"F`), DamageKindEvent, 99, ""},
		{"size malformed", editBody(99, `"size":9`, `"size":9.0`), DamageKindEvent, 99, ""},
		{"key missing", func(_ *testing.T, m *memory) { delete(m.keys, testKey(100)) }, DamageKindKey, 100, ""},
		{"key of another event", func(_ *testing.T, m *memory) { m.keys[testKey(100)] = m.keys[testKey(95)] }, DamageKindKey, 100, ""},
		{"key of another record", func(_ *testing.T, m *memory) { m.keys[testKey(100)] = Claim{Seq: 100} }, DamageKindKey, 100, ""},
		{"key malformed", editBody(100, `"idempotency_key":"`, `"idempotency_key":"0`), DamageKindEvent, 100, ""},
		{"refusal names another", editBody(98, `"first_seq":95`, `"first_seq":94`), DamageKindKey, 98, ""},
		{"refusal names itself", editBody(98, `"first_seq":95`, `"first_seq":98`), DamageKindEvent, 98, ""},
	})
	m := newMemory(t, 300)
	delete(m.contents, digest(99))
	damage := walked(t, m).Damage
	require.Equal(t, "output", damage.Name)
	require.EqualError(t, damage, `content: "output", at entry 99: missing: content: not found`)
}

// WalkLog reports events that violate the specification, even if the log's own key signed them.
func TestDamagedEvents(t *testing.T) {
	testDamage(t, 300, []mutation{
		{"not JSON", editBody(100, `{"actor"`, `["actor"`), DamageKindEvent, 100, ""},
		{"not canonical", editBody(100, `{"actor"`, `{ "actor"`), DamageKindEvent, 100, ""},
		{"lone surrogate", editBody(100, `"lab"`, `"\ud800"`), DamageKindEvent, 100, ""},
		{"not an object", func(t *testing.T, m *memory) {
			m.entries[100] = append(slices.Clone(m.entries[100][:32]), "[]"...)
			inOrder(relink(100), seal)(t, m)
		}, DamageKindEvent, 100, ""},
		{"seq", editBody(100, `"seq":100`, `"seq":101`), DamageKindEvent, 100, ""},
		{"seq a fraction", editBody(100, `"seq":100`, `"seq":100.0`), DamageKindEvent, 100, ""},
		{"version", editBody(100, `"v":1`, `"v":2`), DamageKindEvent, 100, ""},
		{"rules", editBody(100, `"rules":1`, `"rules":2`), DamageKindEvent, 100, ""},
		{"ledger", editBody(100, `"default"`, `"other"`), DamageKindEvent, 100, ""},
		{"no ledger", editBody(100, `"ledger":"default",`, ``), DamageKindEvent, 100, ""},
		{"actor", editBody(100, `"actor":"lab"`, `"actor":1`), DamageKindEvent, 100, ""},
		{"kind", editBody(100, `"ipc_record"`, `null`), DamageKindEvent, 100, ""},
		{"checks", editBody(101, `"checks":{"input_hash":{"result":"claimed"}}`, `"checks":[]`), DamageKindEvent, 101, ""},
		{"checks of no record", editBody(0, `"checks":{}`, `"checks":{"a":{"result":"match"}}`), DamageKindEvent, 0, ""},
		{"earlier", editBody(100, `05.000100Z`, `05.000098Z`), DamageKindEvent, 100, ""},
		{"time without microseconds", editBody(100, `05.000100Z`, `05Z`), DamageKindEvent, 100, ""},
		{"time with a comma", editBody(100, `05.000100Z`, `05,000100Z`), DamageKindEvent, 100, ""},
		{"time of another zone", editBody(100, `05.000100Z`, `05.000100+00:00`), DamageKindEvent, 100, ""},
		{"no such day", editBody(100, `2026-01-02`, `2026-02-30`), DamageKindEvent, 100, ""},
		{"no time in the first event", editBody(0, `2026-01-02T03:04:05.000000Z`, ``), DamageKindEvent, 0, ""},
		{"created again", editBody(101, `"ipc_record"`, `"ledger_created"`), DamageKindEvent, 101, ""},
		{"not created", editBody(0, `"ledger_created"`, `"ipc_record"`), DamageKindEvent, 0, ""},
		{"of another origin", editBody(0, `"origin":"`, `"origin":"x`), DamageKindEvent, 0, ""},
		{"of another key", editBody(0, `"verifier_key":"`, `"verifier_key":"x`), DamageKindEvent, 0, ""},
	})
	require.Nil(t, func() *Damage {
		m := newMemory(t, 300)
		editBody(100, `05.000100Z`, `05.000099Z`)(t, m)
		return walked(t, m).Damage
	}(), "two events at one time")

	report, err := WalkLog(t.Context(), newMemory(t, 3), Options{
		Verifiers: []*proofs.Verifier{testSigner(t, testOrigin, 1).Verifier()}, Ledger: "another",
	})
	require.NoError(t, err)
	require.Equal(t, DamageKindEvent, report.Damage.Kind)
}

// WalkLog reports no damage if the log grows during the walk.
func TestGrowingLog(t *testing.T) {
	small, large := newMemory(t, 300), newMemory(t, 800)
	grown := large.clone()
	grown.head = small.head
	asked := 0
	grown.fail = func(what string) error {
		if what == "head" {
			asked++
			if asked == 1 {
				grown.head = large.head // takes effect from the second read of the head
			}
		}
		return nil
	}
	report := walked(t, grown)
	require.Nil(t, report.Damage)
	require.Equal(t, uint64(300), report.Size)
}

// If the source becomes unavailable, WalkLog returns ErrUnavailable and no report, no matter which
// read fails.
func TestUnavailableSource(t *testing.T) {
	sound := newMemory(t, 300)
	options := Options{Verifiers: []*proofs.Verifier{sound.signer.Verifier()}}
	for _, damage := range []func(*testing.T, *memory){
		func(*testing.T, *memory) {}, flipBit(100, 42), flipTile(0, 0, 100), flipTile(1, 0, 0),
	} {
		for _, what := range []string{"head", "tile", "entry", "content", "referenced", "need", "redaction", "redactions", "key"} {
			for after := 0; ; after += 1 + after/4 {
				m := sound.clone()
				damage(t, m)
				left := after
				m.fail = func(asked string) error {
					if asked == what {
						if left--; left < 0 {
							return fmt.Errorf("the network is down: %w", ErrUnavailable)
						}
					}
					return nil
				}
				report, err := WalkLog(t.Context(), m, options)
				if left >= 0 {
					require.NoError(t, err, "the source was read only %d times", after)
					break
				}
				require.ErrorIs(t, err, ErrUnavailable, "%s, time %d", what, after)
				require.Nil(t, report)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := newMemory(t, 300)
	reads := 0
	m.fail = func(string) error {
		if reads++; reads == 200 {
			cancel()
		}
		return ctx.Err()
	}
	_, err := WalkLog(ctx, m, Options{Verifiers: []*proofs.Verifier{m.signer.Verifier()}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestProgress(t *testing.T) {
	const size = 10_000
	var last, calls uint64
	report, err := WalkLog(t.Context(), newMemory(t, size), Options{
		Verifiers: []*proofs.Verifier{testSigner(t, testOrigin, 1).Verifier()},
		Progress: func(done, total uint64) {
			require.Equal(t, uint64(size), total)
			require.GreaterOrEqual(t, done, last)
			last = done
			calls++
		},
	})
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.Equal(t, uint64(size), last)
	require.Greater(t, calls, uint64(1))
}
