package index

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// Any tally and facts come back as they were encoded.
func TestGroupEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.Uint64Range(1, math.MaxUint64-1).Draw(t, "seq")
		number := rapid.Uint64Range(1, math.MaxInt64)
		drawTally := func(name string) tally {
			runs := number.Draw(t, name)
			outputs := rapid.Uint64Range(1, runs).Draw(t, name)
			commonest := runs
			if outputs > 1 {
				commonest = rapid.Uint64Range(1, runs-1).Draw(t, name)
			}
			c := tally{runs, outputs, commonest, rapid.Uint64Range(0, outputs).Draw(t, name), rapid.Uint64Range(0, runs-1).Draw(t, name), number.Draw(t, name),
				rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name), rapid.Uint64Range(1, seq).Draw(t, name)}
			return c
		}
		g := group{seq: seq, flags: byte(rapid.SampledFrom([]int{0, isRecord, isRecord | isRun, isRecord | isRun | bringsOutput, isMarked}).Draw(t, "flags")),
			live: drawTally("live"), outputBefore: rapid.Uint64Range(0, seq-1).Draw(t, "output"),
			conditionBefore: rapid.Uint64Range(0, seq-1).Draw(t, "condition"),
			facts:           rapid.SliceOf(rapid.Byte()).Draw(t, "facts")}
		if g.flags&isRun != 0 {
			if g.output = g.live.output; g.live.last != seq {
				g.output = rapid.Uint64Range(1, seq).Draw(t, "output")
			}
		}
		if rapid.Bool().Draw(t, "gone") {
			g.live = tally{}
		}
		if g.all = g.live; rapid.Bool().Draw(t, "parted") || g.live.runs == 0 {
			g.all = drawTally("all")
			g.all.runs += g.live.runs
			if g.all.outputs == 1 && g.live.runs > 0 {
				g.all.commonest = g.all.runs
			}
			if g.all.last == seq && g.flags&isRun != 0 {
				g.all.output = g.output
			}
		}
		if g.lone() {
			return
		}
		g.conditions = rapid.Uint64Range(0, g.all.runs).Draw(t, "conditions")
		value := g.append(nil)
		got, err := decodeGroup(seq, value)
		require.NoError(t, err)
		require.Equal(t, g, got)
		_, err = decodeGroup(seq, value[:rapid.IntRange(0, len(value)-len(g.facts)-1).Draw(t, "cut")])
		require.ErrorIs(t, err, rowstore.ErrDamaged)
	})
}

func FuzzDecodeGroup(f *testing.F) {
	g := group{seq: 7, flags: isRecord | isRun, output: 5}
	g.all.add(7, 5, 0)
	g.live = g.all
	f.Add(uint64(7), g.append(nil))
	g.follow(9, isRecord)
	g.live = tally{}
	f.Add(uint64(9), g.append(nil))
	f.Fuzz(func(t *testing.T, seq uint64, value []byte) {
		g, err := decodeGroup(seq, value)
		if err != nil {
			require.ErrorIs(t, err, rowstore.ErrDamaged)
			return
		}
		decodeFacts(g.facts) // whatever they are
		again, err := decodeGroup(seq, g.append(nil))
		require.NoError(t, err)
		require.Equal(t, g.live.runs, again.live.runs)
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
			r.decoded = decodeFacts(appendFacts(nil, &r.IPC))
			return r
		}
		a, b := draw("a"), draw("b")
		for _, r := range []*drawnFacts{&a, &b} {
			r.OutputHash = []byte("out")
			r.decoded.OutputHash = r.OutputHash
		}
		require.Equal(t, drift.CauseOf(&a.IPC, &b.IPC), drift.CauseOf(&a.decoded, &b.decoded))
	})
}

// drawnFacts is a run, and what its facts are decoded to.
type drawnFacts struct {
	event.IPC
	decoded event.IPC
}
