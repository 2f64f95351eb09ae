package groups

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
)

// Tallies and facts survive encoding and decoding.
func TestGroupEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(1, math.MaxUint64-1).Draw(t, "seq")
		number := rapid.Uint64Range(1, math.MaxInt64)
		drawTally := func(name string) Tally {
			runs := number.Draw(t, name)
			outputs := rapid.Uint64Range(1, runs).Draw(t, name)
			mostCommon := runs
			if outputs > 1 {
				mostCommon = rapid.Uint64Range(1, runs-1).Draw(t, name)
			}
			c := Tally{runs, outputs, mostCommon, rapid.Uint64Range(0, outputs).Draw(t, name), rapid.Uint64Range(0, runs-1).Draw(t, name), number.Draw(t, name),
				rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name)}
			return c
		}
		g := Version{seq: seq, flags: byte(rapid.SampledFrom([]int{0, records.FlagRecord, records.FlagRecord | records.FlagRun, records.FlagRecord | records.FlagRun | addsOutput, hasLevelsOrRows}).Draw(t, "flags")),
			LiveTally: drawTally("live"), outputBefore: rapid.Uint64Range(0, seq-1).Draw(t, "output"),
			PrevCombinationSeq: rapid.Uint64Range(0, seq-1).Draw(t, "condition"),
			LastRunFacts:       rapid.SliceOf(rapid.Byte()).Draw(t, "facts")}
		if g.flags&records.FlagRun != 0 {
			if g.OutputSeq = g.LiveTally.LastOutputSeq; g.LiveTally.LastSeq != seq {
				g.OutputSeq = rapid.Uint64Range(1, seq).Draw(t, "output")
			}
		}
		if rapid.Bool().Draw(t, "gone") {
			g.LiveTally = Tally{}
		}
		if g.AllTally = g.LiveTally; rapid.Bool().Draw(t, "parted") || g.LiveTally.Runs == 0 {
			g.AllTally = drawTally("all")
			g.AllTally.Runs += g.LiveTally.Runs
			if g.AllTally.outputs == 1 && g.LiveTally.Runs > 0 {
				g.AllTally.mostCommon = g.AllTally.Runs
			}
			if g.AllTally.LastSeq == seq && g.flags&records.FlagRun != 0 {
				g.AllTally.LastOutputSeq = g.OutputSeq
			}
		}
		if g.lone() {
			return
		}
		if g.AllTally.Runs == 1 {
			g.deferred = deferredCombinations(strings.Repeat("combination ID. ", rapid.IntRange(0, 3).Draw(t, "deferred")))
		}
		value := g.append(nil)
		got, err := DecodeVersion(seq, value)
		require.NoError(t, err)
		require.Equal(t, g, got)
		_, err = DecodeVersion(seq, value[:rapid.IntRange(0, len(value)-len(g.LastRunFacts)-1).Draw(t, "cut")])
		require.ErrorIs(t, err, rowstore.ErrDamaged)
	})
}

func FuzzDecodeGroup(f *testing.F) {
	g := Version{seq: 7, flags: records.FlagRecord | records.FlagRun, OutputSeq: 5, deferred: make(deferredCombinations, 2*len(rowstore.Identity{}))}
	g.AllTally.add(7, 5, 0)
	g.LiveTally = g.AllTally
	f.Add(uint64(7), g.append(nil))
	g.follow(9, records.FlagRecord)
	g.LiveTally = Tally{}
	f.Add(uint64(9), g.append(nil))
	f.Fuzz(func(t *testing.T, seq uint64, value []byte) {
		g, err := DecodeVersion(seq, value)
		if err != nil {
			require.ErrorIs(t, err, rowstore.ErrDamaged)
			return
		}
		DecodeRunFacts(g.LastRunFacts) // must not panic
		again, err := DecodeVersion(seq, g.append(nil))
		require.NoError(t, err)
		require.Equal(t, g.LiveTally.Runs, again.LiveTally.Runs)
		require.Equal(t, g.deferred, again.deferred)
	})
}

func TestFactsCompareAsTheirTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([][]byte{nil, {}, []byte("0.7"), []byte("0.70"), []byte(strings.Repeat("x", longestFact)),
			[]byte(strings.Repeat("x", longestFact+1)), []byte(strings.Repeat("y", 64))})
		draw := func(name string) (r drawnFacts) {
			for i, fact := range facts(&r.IPC) {
				*fact = text.Draw(t, fmt.Sprint(name, i))
			}
			// Both runs have the same input, so they belong to the same group.
			input := []byte("of the group")
			r.InputHash, r.HasPayload = input, rapid.Bool().Draw(t, name+" has a payload")
			if r.HasPayload && rapid.Bool().Draw(t, name+" has a seed in it") {
				r.InputHash, r.SeedlessInputHash = []byte("with the seed"), input
			}
			r.decoded = DecodeRunFacts(appendFacts(nil, &r.IPC))
			return r
		}
		a, b := draw("a"), draw("b")
		for _, r := range []*drawnFacts{&a, &b} {
			r.OutputHash = []byte("out")
			r.decoded.OutputHash = r.OutputHash
		}
		require.Equal(t, drift.CauseOf(&a.IPC, &b.IPC, false), drift.CauseOf(&a.decoded, &b.decoded, false))
	})
}

// drawnFacts is a random run together with the run decoded from its encoded facts.
type drawnFacts struct {
	event.IPC
	decoded event.IPC
}

// A group that is waiting to be ranked uses no more memory than index.ResolvedConfig assumes.
func TestChangesAreSmall(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(change{})), 72)
}
