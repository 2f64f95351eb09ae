package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// reportedDamage describes the damage that a command must report for a mutation. The zero value means that
// the command cannot detect the mutation.
type reportedDamage struct {
	kind audit.DamageKind
	seq  uint64
	tile string
	name string // name of the damaged content or of the failed check; "" matches any
}

// auditMutation is one way to damage a ledger.
type auditMutation struct {
	name   string
	change func(*forge)
	// fsck, audit, and content are what the commands fsck, audit, and audit --content must report.
	// again is what an audit must report when it continues from a state that was saved before the
	// mutation.
	fsck, audit, content, again reportedDamage
}

// both returns a mutation for which fsck and every audit that starts without a state report the
// same damage.
func both(name string, change func(*forge), n reportedDamage) auditMutation {
	return auditMutation{name, change, n, n, n, reportedDamage{}}
}

// outsideLog returns a mutation of data that is stored outside the log, such as content. An audit
// without --content cannot detect it.
func outsideLog(name string, change func(*forge), fsck, content reportedDamage) auditMutation {
	return auditMutation{name: name, change: change, fsck: fsck, content: content}
}

// fsck and audit report each mutation with its kind and position. To save time, audit --content
// runs only for mutations that audit alone does not fully detect, and for the first mutation of
// each kind.
func TestMutationsAreNamed(t *testing.T) {
	w := ledgertest.New(t, 520, 20, 60)
	state := filepath.Join(t.TempDir(), "state")
	url, stop := ledgertest.Serve(t, w.DataDir)
	report, o := audited(t, url, w.Key, "--state", state, "--content")
	stop()
	require.True(t, report.Clean, "%s%s", o.stdout, o.stderr)

	mutations := auditMutations(w)
	require.GreaterOrEqual(t, len(mutations), 40)
	met := make(map[audit.DamageKind]bool)
	for _, m := range append(mutations, auditMutation{name: "control", change: func(*forge) {}}) {
		t.Run(m.name, func(t *testing.T) {
			data := w.Copy(t)
			f := newForge(t, w, data)
			m.change(f)
			f.done()
			requireFsck(t, w, data, m.fsck)
			url := serveRaw(t, data, nil)
			requireAudit(t, w, url, m.audit)
			if m.content != m.audit || !met[m.audit.kind] {
				requireAudit(t, w, url, m.content, "--content")
			}
			met[m.audit.kind] = true
			if m.again == (reportedDamage{}) && m.audit != (reportedDamage{}) {
				return // these mutations are not tested with a saved state
			}
			again := filepath.Join(t.TempDir(), "state")
			copyState(t, state, again)
			requireAudit(t, w, url, m.again, "--state", again)
			requireAudit(t, w, url, m.again, "--state", again) // the failed audit must not change the state
		})
	}
}

func copyState(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, text, 0o600))
	require.NoError(t, os.CopyFS(to+".d", os.DirFS(from+".d")))
}

func requireFsck(t *testing.T, w *ledgertest.Ledger, data string, want reportedDamage) {
	t.Helper()
	o := commandLine(t.Context(), "fsck", "--data", data, "--key", w.Key, "--json")
	var report struct {
		Ledgers []struct{ Damage *damage }
	}
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &report), "%s%s", o.stdout, o.stderr)
	require.Len(t, report.Ledgers, 1)
	d := report.Ledgers[0].Damage
	if want == (reportedDamage{}) {
		require.Nil(t, d, "fsck")
		return
	}
	require.NotNil(t, d, "fsck")
	require.Equal(t, 1, o.code)
	got := reportedDamage{audit.DamageKind(d.Kind), d.Seq, d.Tile, ""}
	if want.name != "" {
		got.name = want.name
		require.Equal(t, want.name, d.Content)
	}
	require.Equal(t, want, got, "fsck: %s", d.Message)
}

func requireAudit(t *testing.T, w *ledgertest.Ledger, url string, want reportedDamage, flags ...string) {
	t.Helper()
	report, o := audited(t, url, w.Key, flags...)
	if want == (reportedDamage{}) {
		require.True(t, report.Clean, "audit %s: %s%s", flags, o.stdout, o.stderr)
		return
	}
	require.Len(t, report.Findings, 1, "audit %s: %s%s", flags, o.stdout, o.stderr)
	found := report.Findings[0]
	for _, e := range auditExits {
		if e.kind == want.kind {
			require.Equal(t, e.code, o.code)
		}
	}
	require.NotNil(t, found.Seq)
	require.NotEmpty(t, found.Message)
	got := reportedDamage{found.Kind, *found.Seq, found.TilePath, found.Name}
	if want.name == "" {
		got.name = ""
	}
	require.Equal(t, want, got, "audit %s: %s", flags, found.Message)
}

func auditMutations(w *ledgertest.Ledger) []auditMutation {
	var all []auditMutation
	for _, list := range [...][]auditMutation{
		entryMutations(w), tileMutations(w), checkpointMutations(w), forkMutations(w), chainMutations(w),
		eventMutations(w), checkMutations(w), keyMutations(w), contentMutations(w),
	} {
		all = append(all, list...)
	}
	return all
}

func entryMutations(w *ledgertest.Ledger) []auditMutation {
	entry := func(seq uint64) reportedDamage { return reportedDamage{kind: audit.DamageKindEntry, seq: seq} }
	flip := func(seq uint64, at int) func(*forge) { return func(f *forge) { f.flip(seq, at) } }
	last := w.Size - 1
	truncated := func(seq uint64) (fsck, served reportedDamage) {
		index := seq / proofs.FullTileWidth
		path := proofs.TilePath{IsEntryBundle: true, Index: index, Width: proofs.TileWidth(0, index, w.Size)}
		return reportedDamage{kind: audit.DamageKindTruncation, seq: seq}, reportedDamage{kind: audit.DamageKindTruncation, seq: seq, tile: path.String()}
	}
	hole, holeServed := truncated(300)
	end, endServed := truncated(last)
	cut, cutServed := truncated(400)
	return []auditMutation{
		both("flip a byte in an event", flip(100, 60), entry(100)),
		both("flip a byte in a link", flip(100, 3), entry(100)),
		both("flip a byte in the first entry", flip(0, 60), entry(0)),
		both("flip a byte at the end of a tile", flip(255, 60), entry(255)),
		both("flip a byte at the beginning of a tile", flip(256, 60), entry(256)),
		both("flip a byte in the last entry", flip(last, 60), entry(last)),
		both("shorten an entry", func(f *forge) { f.put(9, f.entries[9][:20]) }, entry(9)),
		both("lengthen an entry", func(f *forge) { f.put(9, append(bytes.Clone(f.entries[9]), ' ')) }, entry(9)),
		both("duplicate an entry over the next", func(f *forge) { f.put(101, f.entries[100]) }, entry(101)),
		both("swap two neighbours", func(f *forge) {
			a, b := f.entries[100], f.entries[101]
			f.put(100, b)
			f.put(101, a)
		}, entry(100)),
		both("swap two far apart", func(f *forge) {
			a, b := f.entries[50], f.entries[400]
			f.put(50, b)
			f.put(400, a)
		}, entry(50)),
		{"drop an entry", func(f *forge) { require.NoError(f.t, f.x.DeleteEntry(300)) }, hole, holeServed, holeServed, reportedDamage{}},
		{"drop the last entry", func(f *forge) { require.NoError(f.t, f.x.DeleteEntry(last)) }, end, endServed, endServed, reportedDamage{}},
		{"truncate", func(f *forge) {
			for seq := uint64(400); seq < w.Size; seq++ {
				require.NoError(f.t, f.x.DeleteEntry(seq))
			}
		}, cut, cutServed, cutServed, reportedDamage{}},
		both("rewrite an event and the chain after it", func(f *forge) {
			f.replace(540, `"actor":"anonymous"`, `"actor":"somebody"`)
			f.relink(540)
		}, entry(540)),
	}
}

func tileMutations(w *ledgertest.Ledger) []auditMutation {
	tile := func(seq uint64, level uint8, index uint64) reportedDamage {
		return reportedDamage{kind: audit.DamageKindTile, seq: seq, tile: proofs.TilePath{Level: level, Index: index, Width: proofs.TileWidth(level, index, w.Size)}.String()}
	}
	flip := func(level uint8, index uint64, slot int) func(*forge) {
		return func(f *forge) {
			f.tile(level, index, func(b []byte) []byte {
				b[slot*proofs.HashSize] ^= 1
				return b
			})
		}
	}
	return []auditMutation{
		both("flip a byte in a tile", flip(0, 0, 100), tile(100, 0, 0)),
		both("flip a byte in the last hash of a tile", flip(0, 0, 255), tile(255, 0, 0)),
		both("flip a byte in the edge", flip(0, 2, 3), tile(515, 0, 2)),
		both("flip a byte in the last hash", flip(0, 2, int(w.Size-1)%proofs.FullTileWidth), tile(w.Size-1, 0, 2)),
		both("flip a byte in an upper tile", flip(1, 0, 1), tile(256, 1, 0)),
		both("drop a tile", func(f *forge) { require.NoError(f.t, f.x.DeleteTile(0, 1)) }, tile(256, 0, 1)),
		both("drop an upper tile", func(f *forge) { require.NoError(f.t, f.x.DeleteTile(1, 0)) }, tile(0, 1, 0)),
		both("shorten a tile", func(f *forge) {
			f.tile(0, 1, func(b []byte) []byte { return b[:32*9] })
		}, tile(265, 0, 1)),
		both("lengthen the edge", func(f *forge) {
			f.tile(0, 2, func(b []byte) []byte { return append(b, b[:32]...) })
		}, tile(w.Size, 0, 2)),
		both("swap two tiles", func(f *forge) {
			a, b := f.tiles[[2]uint64{0, 0}], f.tiles[[2]uint64{0, 1}]
			require.NoError(f.t, f.x.SetTile(0, 0, b))
			require.NoError(f.t, f.x.SetTile(0, 1, a))
		}, tile(0, 0, 0)),
	}
}

func checkpointMutations(w *ledgertest.Ledger) []auditMutation {
	head := func(change func(f *forge, h *storage.Head)) func(*forge) {
		return func(f *forge) {
			change(f, &f.head)
			require.NoError(f.t, f.x.SetHead(f.head))
		}
	}
	at := func(kind audit.DamageKind, seq uint64) reportedDamage { return reportedDamage{kind: kind, seq: seq} }
	signedBy := func(origin string) func(*forge) {
		return head(func(f *forge, h *storage.Head) {
			signer, err := proofs.GenerateKey().Signer(origin)
			require.NoError(f.t, err)
			h.Checkpoint, err = signer.Sign(proofs.Checkpoint{Origin: origin, Size: w.Size, Root: f.root(w.Size)})
			require.NoError(f.t, err)
		})
	}
	// Without a valid checkpoint, audit does not know the size of the log and reports position 0.
	return []auditMutation{
		{"flip a byte in the signature", head(func(_ *forge, h *storage.Head) {
			h.Checkpoint = bytes.Clone(h.Checkpoint)
			digit := &h.Checkpoint[len(h.Checkpoint)-20] // the changed character is still a base64 digit
			*digit = map[bool]byte{true: 'B', false: 'A'}[*digit == 'A']
		}), at(audit.DamageKindSignature, w.Size), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0)},
		{"sign with another key", func(f *forge) { signedBy(f.signer.Origin())(f) }, at(audit.DamageKindSignature, w.Size), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0)},
		{"sign as another log", signedBy("elsewhere.example"), at(audit.DamageKindSignature, w.Size), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0), at(audit.DamageKindSignature, 0)},
		{"drop the checkpoint", head(func(_ *forge, h *storage.Head) { h.Checkpoint = nil }), at(audit.DamageKindCheckpoint, w.Size), at(audit.DamageKindCheckpoint, 0), at(audit.DamageKindCheckpoint, 0), at(audit.DamageKindCheckpoint, 0)},
		{"an older checkpoint", func(f *forge) {
			h := f.head
			f.signHead(w.Size-10, f.root(w.Size-10))
			h.Checkpoint = f.head.Checkpoint
			require.NoError(f.t, f.x.SetHead(h))
		}, at(audit.DamageKindCheckpoint, w.Size), reportedDamage{kind: audit.DamageKindTile, seq: w.Size - 10, tile: proofs.TilePath{Index: 2, Width: int(w.Size - 522)}.String()},
			reportedDamage{kind: audit.DamageKindTile, seq: w.Size - 10, tile: proofs.TilePath{Index: 2, Width: int(w.Size - 522)}.String()}, at(audit.DamageKindRollback, w.Size-10)},
		{"the right key signs another root", func(f *forge) { f.signHead(w.Size, proofs.Hash{1}) }, at(audit.DamageKindRoot, w.Size), at(audit.DamageKindRoot, w.Size), at(audit.DamageKindRoot, w.Size), at(audit.DamageKindFork, w.Size)},
		{"the right key signs a larger size", func(f *forge) {
			h := f.head
			var err error
			h.Checkpoint, err = f.signer.Sign(proofs.Checkpoint{Origin: f.signer.Origin(), Size: w.Size + 1, Root: proofs.Hash{1}})
			require.NoError(f.t, err)
			require.NoError(f.t, f.x.SetHead(h))
		}, at(audit.DamageKindTruncation, w.Size), reportedDamage{kind: audit.DamageKindTruncation, seq: w.Size, tile: proofs.TilePath{IsEntryBundle: true, Index: 2, Width: int(w.Size - 511)}.String()},
			reportedDamage{kind: audit.DamageKindTruncation, seq: w.Size, tile: proofs.TilePath{IsEntryBundle: true, Index: 2, Width: int(w.Size - 511)}.String()},
			reportedDamage{kind: audit.DamageKindTruncation, seq: w.Size, tile: proofs.TilePath{IsEntryBundle: true, Index: 2, Width: int(w.Size - 511)}.String()}},
		{"another tip in the head", head(func(_ *forge, h *storage.Head) { h.Tip[0] ^= 1 }), at(audit.DamageKindHead, w.Size), reportedDamage{}, reportedDamage{}, reportedDamage{}},
		{"another time in the head", head(func(_ *forge, h *storage.Head) { h.TimeMicros++ }), at(audit.DamageKindHead, w.Size), reportedDamage{}, reportedDamage{}, reportedDamage{}},
	}
}

// forkMutations returns mutations that fork the log, roll it back, or extend it. The right key signs
// each result, so the logs are valid. Only fsck, which reads the high-water mark, and an auditor that
// has seen the other tree can detect a fork or a rollback.
func forkMutations(w *ledgertest.Ledger) []auditMutation {
	at := func(kind audit.DamageKind, seq uint64) reportedDamage { return reportedDamage{kind: kind, seq: seq} }
	fork := func(from uint64) func(*forge) {
		return func(f *forge) { f.rewrite(from, `"actor":"anonymous"`, `"actor":"somebody"`) }
	}
	grow := func(f *forge) { f.add(f.bodyOf(f.seq("revocation"))) }
	shrink := func(size uint64) func(*forge) {
		return func(f *forge) {
			for seq := size; seq < w.Size; seq++ {
				require.NoError(f.t, f.x.DeleteEntry(seq))
			}
			f.entries = f.entries[:size]
			f.head.TimeMicros = timeOf(f, size-1)
			f.sign(size)
		}
	}
	then := func(changes ...func(*forge)) func(*forge) {
		return func(f *forge) {
			for _, change := range changes {
				change(f)
			}
		}
	}
	// fsck compares the log with the high-water mark, which states the size and root of the largest
	// tree that the ledger has signed.
	mark := func(size uint64) reportedDamage { return at(audit.DamageKindRollback, size) }
	return []auditMutation{
		{"fork after 400", fork(400), mark(w.Size), reportedDamage{}, reportedDamage{}, at(audit.DamageKindFork, 400)},
		{"fork after 512", fork(512), mark(w.Size), reportedDamage{}, reportedDamage{}, at(audit.DamageKindFork, 512)},
		{"fork at the last event", fork(w.Size - 1), mark(w.Size), reportedDamage{}, reportedDamage{}, at(audit.DamageKindFork, w.Size-1)},
		{"fork after 570 that has grown", then(fork(570), grow), mark(w.Size + 1), reportedDamage{}, reportedDamage{}, at(audit.DamageKindFork, 570)},
		{"fork after 570 that is shorter", then(fork(570), shrink(w.Size-5)), mark(w.Size - 5), reportedDamage{}, reportedDamage{}, at(audit.DamageKindFork, 570)},
		{"roll back", shrink(w.Size - 5), mark(w.Size - 5), reportedDamage{}, reportedDamage{}, at(audit.DamageKindRollback, w.Size-5)},
		{"roll back behind a tile", shrink(512), at(audit.DamageKindRedaction, w.EventSeqs["secret"]), reportedDamage{}, reportedDamage{}, at(audit.DamageKindRollback, 512)},
		{"grow", grow, reportedDamage{}, reportedDamage{}, reportedDamage{}, reportedDamage{}},
	}
}

// timeOf returns the time of an event in microseconds since 1970.
func timeOf(f *forge, seq uint64) int64 {
	var event struct{ Time string }
	require.NoError(f.t, json.Unmarshal(f.entries[seq][proofs.HashSize:], &event))
	return microseconds(f.t, event.Time)
}

// timeText returns the time of an event as a string, in the format of the event's JSON.
func timeText(f *forge, seq uint64) string {
	_, rest, found := strings.Cut(string(f.entries[seq]), `"time":"`)
	require.True(f.t, found)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

func chainMutations(w *ledgertest.Ledger) []auditMutation {
	chain := func(seq uint64) reportedDamage { return reportedDamage{kind: audit.DamageKindChain, seq: seq} }
	sign := func(f *forge) { f.sign(uint64(len(f.entries))) }
	return []auditMutation{
		both("one-sided join: another link, tree and signature right", func(f *forge) {
			f.flip(100, 3)
			sign(f)
		}, chain(100)),
		both("another event, tree and signature right", func(f *forge) {
			f.replace(100, `"actor":"anonymous"`, `"actor":"somebody"`)
			sign(f)
		}, chain(101)),
		both("a link that is not zero before the first", func(f *forge) {
			f.flip(0, 3)
			sign(f)
		}, chain(0)),
		both("an entry taken out, tree and signature right", func(f *forge) {
			for seq := uint64(600); seq < w.Size-1; seq++ {
				f.put(seq, f.entries[seq+1])
			}
			f.entries = f.entries[:w.Size-1]
			require.NoError(f.t, f.x.DeleteEntry(w.Size-1))
			f.sign(w.Size - 1)
		}, chain(600)),
		both("an entry taken out, and the chain joined", func(f *forge) {
			for seq := uint64(600); seq < w.Size-1; seq++ {
				f.put(seq, f.entries[seq+1])
			}
			f.entries = f.entries[:w.Size-1]
			require.NoError(f.t, f.x.DeleteEntry(w.Size-1))
			f.relink(600)
			f.sign(w.Size - 1)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: 600}),
		both("an entry twice, and the chain joined", func(f *forge) {
			f.put(600, f.entries[599])
			f.relink(600)
			sign(f)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: 600}),
	}
}

func eventMutations(w *ledgertest.Ledger) []auditMutation {
	event := func(name string, seq uint64, from, to string) auditMutation {
		return both(name, func(f *forge) { f.rewrite(seq, from, to) }, reportedDamage{kind: audit.DamageKindEvent, seq: seq})
	}
	// fsck checks the redacted record before it reaches the damaged event, so it reports the
	// record.
	lost := reportedDamage{kind: audit.DamageKindRedaction, seq: w.EventSeqs["secret"]}
	year := func(f *forge) {
		seq := f.seq("other")
		f.rewrite(seq, `"time":"20`, `"time":"19`)
	}
	return []auditMutation{
		both("time goes back", year, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["other"]}),
		event("another seq", 590, `"seq":590`, `"seq":101`),
		event("another version", 590, `"v":1`, `"v":2`),
		event("other rules", 590, `"rules":1`, `"rules":2`),
		event("another ledger", 590, `"ledger":"default"`, `"ledger":"another"`),
		event("an unknown kind", 590, `"kind":"ipc_record"`, `"kind":"ipc_rumour"`),
		event("not canonical", 590, `{"actor"`, `{ "actor"`),
		event("an unknown member", 590, `"rules":1`, `"rulers":0,"rules":1`),
		event("an empty actor", 590, `"actor":"anonymous"`, `"actor":""`),
		event("an actor with a control character", 590, `"actor":"anonymous"`, `"actor":"a\u0000b"`),
		event("an actor with an invisible character", 590, `"actor":"anonymous"`, "\"actor\":\"a\u202eb\""),
		{"a time in the future", func(f *forge) {
			last := w.Size - 1
			f.replace(last, timeText(f, last), "9999-12-31T23:59:59.999999Z")
			f.head.TimeMicros = timeOf(f, last)
			f.sign(w.Size)
		}, reportedDamage{kind: audit.DamageKindRollback, seq: w.Size}, reportedDamage{kind: audit.DamageKindEvent, seq: w.Size - 1}, reportedDamage{kind: audit.DamageKindEvent, seq: w.Size - 1}, reportedDamage{kind: audit.DamageKindFork, seq: w.Size - 1}},
		both("a source without an id", func(f *forge) { f.reword(f.seq("source"), `"source_id":"x"`, `"source_id":""`) }, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["source"]}),
		both("a chunk hash that is not a hash", func(f *forge) {
			f.reword(f.seq("source"), `"record":{"digest"`, `"record":{"chunk_hashes":["sha256:0"],"digest"`)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["source"]}),
		both("a chunk twice", func(f *forge) {
			f.reword(f.seq("source"), `"record":{"digest"`, `"record":{"chunk_hashes":["sha256:`+ledgertest.ZeroHash+`","sha256:`+ledgertest.ZeroHash+`"],"digest"`)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["source"]}),
		both("revokes a source that was never registered", func(f *forge) {
			f.reword(f.seq("revocation"), `"source_id":"x"`, `"source_id":"y"`)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["revocation"]}),
		event("created a second time", 590, `"kind":"ipc_record"`, `"kind":"ledger_created"`),
		event("created by another key", 0, `"verifier_key":"`, `"verifier_key":"x`),
		event("created with another origin", 0, `"origin":"`, `"origin":"x`),
		both("a state for an event without states", func(f *forge) {
			f.reword(f.seq("stale"), fmt.Sprintf(`"record_seq":%d`, f.seq("claims")), fmt.Sprintf(`"record_seq":%d`, f.seq("set")))
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["stale"]}),
		both("a state for a later event", func(f *forge) {
			f.reword(f.seq("stale"), fmt.Sprintf(`"record_seq":%d`, f.seq("claims")), fmt.Sprintf(`"record_seq":%d`, w.Size-1))
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["stale"]}),
		both("a validation of another content", func(f *forge) {
			f.reword(f.seq("validation"), `"content_fingerprint":"`, `"content_fingerprint":"0`)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["validation"]}),
		{"redacts an event without content", func(f *forge) {
			f.reword(f.seq("redaction"), fmt.Sprintf(`"seqs":[%d]`, f.seq("secret")), fmt.Sprintf(`"seqs":[%d]`, f.seq("claims")))
		}, lost, reportedDamage{kind: audit.DamageKindRedaction, seq: w.EventSeqs["redaction"]}, reportedDamage{kind: audit.DamageKindRedaction, seq: w.EventSeqs["redaction"]}, reportedDamage{}},
		{"redacts a later event", func(f *forge) {
			f.reword(f.seq("redaction"), fmt.Sprintf(`"seqs":[%d]`, f.seq("secret")), fmt.Sprintf(`"seqs":[%d]`, w.Size-1))
		}, lost, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["redaction"]}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["redaction"]}, reportedDamage{}},
		both("a reason that was not posted", func(f *forge) {
			f.rewrite(f.seq("redaction"), `"reason":"Asked for."`, `"reason":"Not asked."`)
		}, reportedDamage{kind: audit.DamageKindCheck, seq: w.EventSeqs["redaction"], name: "digest"}),
	}
}

func checkMutations(w *ledgertest.Ledger) []auditMutation {
	check := func(event, name string) reportedDamage {
		return reportedDamage{kind: audit.DamageKindCheck, seq: w.EventSeqs[event], name: name}
	}
	alone := func(name, event, field, from, to string) auditMutation {
		return both(name, func(f *forge) { f.rewrite(f.seq(event), from, to) }, check(event, field))
	}
	// deep returns a mutation that an audit without a state detects only with --content, by
	// comparing the event with its content. fsck detects it in the same way.
	deep := func(name, event, field string, change func(*forge)) auditMutation {
		m := outsideLog(name, change, check(event, field), check(event, field))
		m.again = reportedDamage{kind: audit.DamageKindFork, seq: w.EventSeqs[event]}
		return m
	}
	// other returns a mutation that replaces the hash that directly follows the text in before.
	other := func(name, event, field, before string) auditMutation {
		return both(name, func(f *forge) {
			f.rewrite(f.seq(event), before+hashAfter(f, event, before), before+ledgertest.ZeroHash)
		}, check(event, field))
	}
	const mismatch = `"output_hash":{"claimed":"` + ledgertest.ZeroHash + `","computed":"`
	return []auditMutation{
		alone("match in place of claimed", "claims", "input_hash", `"input_hash":{"result":"claimed"}`, `"input_hash":{"result":"match"}`),
		alone("claimed though there is content", "ipc", "output_hash", `"output_hash":{"result":"computed"}`, `"output_hash":{"result":"claimed"}`),
		alone("mismatch without values", "ipc", "output_hash", `"output_hash":{"result":"computed"}`, `"output_hash":{"result":"mismatch"}`),
		both("mismatch of a value with itself", func(f *forge) {
			f.rewrite(f.seq("mismatch"), `"claimed":"`+ledgertest.ZeroHash, `"claimed":"`+hashAfter(f, "mismatch", mismatch))
		}, check("mismatch", "output_hash")),
		alone("an unknown result", "ipc", "output_hash", `"output_hash":{"result":"computed"}`, `"output_hash":{"result":"right"}`),
		other("another ipc_id", "ipc", "ipc_id", `"ipc_id":"`),
		alone("another model", "ipc", "ipc_id", `"model":"m1"`, `"model":"m2"`),
		other("another root of a run", "dag", "root", `"root":"`),
		alone("another shape of a run", "dag", "shape", `"shape":"quote"`, `"shape":"pointer"`),
		alone("another failure stage", "dag", "failure_stage", `"failure_stage":"answer"`, `"failure_stage":"context"`),
		alone("another cache dimension", "dag", "cache_key", `"schema_version":"1"`, `"schema_version":"2"`),
		alone("another route", "path", "path_id", `"route":["Start"]`, `"route":["End"]`),
		alone("a chunk that is claimed as computed", "set", "citations/1/chunk_hash", `"citations/1/chunk_hash":{"result":"claimed"}`, `"citations/1/chunk_hash":{"result":"computed"}`),
		both("a check that is left out", func(f *forge) {
			f.rewrite(f.seq("ipc"), `"output_hash":{"result":"computed"},`, ``)
		}, check("ipc", "output_hash")),
		both("a check of a field that the record lacks", func(f *forge) {
			f.rewrite(f.seq("ipc"), `"output_hash":{"result":"computed"},`, `"output_hash":{"result":"computed"},"outrage":{"result":"match"},`)
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["ipc"]}),
		deep("match though nothing was claimed", "ipc", "output_hash", func(f *forge) {
			f.rewrite(f.seq("ipc"), `"output_hash":{"result":"computed"}`, `"output_hash":{"result":"match"}`)
		}),
		deep("match though the claim was wrong", "mismatch", "digest", func(f *forge) {
			f.rewrite(f.seq("mismatch"), mismatch+hashAfter(f, "mismatch", mismatch)+`","result":"mismatch"}`, `"output_hash":{"result":"match"}`)
		}),
		deep("another label", "labelled", "digest", func(f *forge) { f.rewrite(f.seq("labelled"), `"step":"one"`, `"step":"two"`) }),
		deep("a seed that was not posted", "other", "digest", func(f *forge) {
			f.rewrite(f.seq("other"), `,"temperature"`, `,"seed":8,"temperature"`)
		}),
		deep("another label of a record without content", "claims", "digest", func(f *forge) { f.rewrite(f.seq("claims"), `"step":"one"`, `"step":"two"`) }),
		{"another digest", func(f *forge) { // the stored idempotency key refers to this digest
			f.rewrite(f.seq("labelled"), `"digest":"`+hashAfter(f, "labelled", `"digest":"`), `"digest":"`+ledgertest.ZeroHash)
		}, reportedDamage{kind: audit.DamageKindKey, seq: w.EventSeqs["labelled"]}, reportedDamage{}, check("labelled", "digest"), reportedDamage{kind: audit.DamageKindFork, seq: w.EventSeqs["labelled"]}},
	}
}

// hashAfter returns the hash that directly follows a text in an event.
func hashAfter(f *forge, event, before string) string {
	_, rest, found := bytes.Cut(f.entries[f.seq(event)], []byte(before))
	require.True(f.t, found)
	return string(rest[:len(ledgertest.ZeroHash)])
}

func keyMutations(w *ledgertest.Ledger) []auditMutation {
	key := func(seq uint64) reportedDamage { return reportedDamage{kind: audit.DamageKindKey, seq: seq} }
	store := func(change func(f *forge, k *storage.Claim)) func(*forge) {
		return func(f *forge) {
			k := storage.Claim{KeyDigest: f.keyOf("ipc"), Seq: f.seq("ipc")}
			change(f, &k)
			require.NoError(f.t, f.x.SetClaim(k))
		}
	}
	return []auditMutation{
		outsideLog("flip a byte of a key's record", store(func(_ *forge, k *storage.Claim) { k.RecordDigest[0] ^= 1 }), key(w.EventSeqs["ipc"]), reportedDamage{}),
		outsideLog("a key leads to another event", store(func(_ *forge, k *storage.Claim) { k.Seq-- }), key(w.EventSeqs["ipc"]), reportedDamage{}),
		{"one key for two events", func(f *forge) {
			f.add(replaced(f, f.bodyOf(f.seq("mismatch")), fmt.Sprintf("%x", f.keyOf("mismatch")), fmt.Sprintf("%x", f.keyOf("ipc"))))
		}, key(w.Size), key(w.Size), key(w.Size), key(w.Size)},
		both("a refusal for a key that another event holds", func(f *forge) {
			f.rewrite(f.seq("refusal"), fmt.Sprintf(`"first_seq":%d`, f.seq("ipc")), fmt.Sprintf(`"first_seq":%d`, f.seq("mismatch")))
		}, key(w.EventSeqs["refusal"])),
		both("a refusal for a key that no event holds", func(f *forge) {
			f.rewrite(f.seq("refusal"), fmt.Sprintf("%x", f.keyOf("ipc")), ledgertest.ZeroHash)
		}, key(w.EventSeqs["refusal"])),
		both("a run without its key", func(f *forge) {
			f.rewrite(f.seq("claims"), fmt.Sprintf(`"idempotency_key":"%x",`, f.keyOf("claims")), "")
		}, reportedDamage{kind: audit.DamageKindEvent, seq: w.EventSeqs["claims"]}),
	}
}

func replaced(f *forge, text, from, to string) string {
	require.Contains(f.t, text, from)
	return string(bytes.ReplaceAll([]byte(text), []byte(from), []byte(to)))
}

func contentMutations(w *ledgertest.Ledger) []auditMutation {
	content := func(event, name string) reportedDamage {
		return reportedDamage{kind: audit.DamageKindContent, seq: w.EventSeqs[event], name: name}
	}
	redaction := func(seq uint64) reportedDamage { return reportedDamage{kind: audit.DamageKindRedaction, seq: seq} }
	return []auditMutation{
		outsideLog("remove content", func(f *forge) { require.NoError(f.t, f.x.DeleteContent(f.contentOf("other", "output"))) }, content("other", "output"), content("other", "output")),
		outsideLog("alter content", func(f *forge) {
			require.NoError(f.t, f.x.SetContent(f.contentOf("other", "output"), []byte("Another.")))
		}, content("other", "output"), content("other", "output")),
		outsideLog("remove shared content", func(f *forge) {
			require.NoError(f.t, f.x.DeleteContent(f.contentOf("ipc", "system_prompt")))
		}, reportedDamage{kind: audit.DamageKindContent, seq: 1, name: "system_prompt"}, reportedDamage{kind: audit.DamageKindContent, seq: 1, name: "system_prompt"}),
		outsideLog("redact without an event", func(f *forge) {
			require.NoError(f.t, f.x.SetRedaction(f.seq("other"), f.seq("redaction")))
		}, redaction(w.EventSeqs["other"]), redaction(w.EventSeqs["other"])),
		outsideLog("redact by an event to come", func(f *forge) { require.NoError(f.t, f.x.SetRedaction(f.seq("other"), w.Size+7)) }, redaction(w.EventSeqs["other"]), reportedDamage{}),
		outsideLog("forget that it is redacted", func(f *forge) { require.NoError(f.t, f.x.DeleteRedaction(f.seq("secret"))) },
			content("secret", "output"), content("secret", "output")),
		{"forget a reference", func(f *forge) {
			require.NoError(f.t, f.x.DeleteReference(f.contentOf("ipc", "system_prompt"), f.seq("ipc")))
		}, content("ipc", "system_prompt"), reportedDamage{}, reportedDamage{}, reportedDamage{}},
		{"redact a later event", func(f *forge) { require.NoError(f.t, f.x.SetRedaction(w.Size, 5)) }, redaction(w.Size), reportedDamage{}, reportedDamage{}, reportedDamage{}},
		{"an output of another hash", func(f *forge) {
			f.rewrite(f.seq("other"), `"output":{"sha256":"`+fmt.Sprintf("%x", f.contentOf("other", "output")), `"output":{"sha256":"`+fmt.Sprintf("%x", f.contentOf("ipc", "output")))
		}, content("other", "output"), reportedDamage{}, content("other", "output"), reportedDamage{kind: audit.DamageKindFork, seq: w.EventSeqs["other"]}},
	}
}
