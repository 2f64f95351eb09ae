package textdiff_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/ledger/textdiff"
)

// show formats a diff, writing deletions as [-text-] and insertions as {+text+}.
func show(edits []textdiff.Edit) string {
	var text strings.Builder
	for _, e := range edits {
		switch e.Op {
		case textdiff.OpDelete:
			text.WriteString("[-" + string(e.Text) + "-]")
		case textdiff.OpInsert:
			text.WriteString("{+" + string(e.Text) + "+}")
		default:
			text.Write(e.Text)
		}
	}
	return text.String()
}

func TestDiffOfWords(t *testing.T) {
	for _, c := range []struct {
		a, b, diff string
		similarity float64
	}{
		{"", "", "", 1},
		{"", "one two", "{+one two+}", 0},
		{"one two", "", "[-one two-]", 0},
		{"The ferry is late.", "The ferry is late.", "The ferry is late.", 1},
		{"The ferry is late.", "The ferry was late.", "The ferry [-is-]{+was+} late.", 0.8},
		{"The ferry is late.", "No ferry today.", "[-The-]{+No+} ferry[- is late-]{+ today+}.", 2 * 2. / 9},
		{"a b c", "a  b\nc", "a  b\nc", 1}, // white space is not compared
		{"a b c ", "a b c", "a b c", 1},
		{"don't go", "don’t go", "[-don't-]{+don’t+} go", 0.5},
		{"don't", "dont", "[-don't-]{+dont+}", 0},
		{"渡船晚点了", "渡船准点了", "渡船[-晚-]{+准+}点了", 0.8},
		{`{"k":1,"l":2}`, `{"k":1,"l":3}`, `{"k":1,"l":[-2-]{+3+}}`, 2 * 12. / 26},
		{"\xff x", "\xff y", "\xff [-x-]{+y+}", 0.5},
	} {
		f, edits := textdiff.Diff([]byte(c.a), []byte(c.b))
		assert.Equal(t, c.diff, show(edits), "%q and %q", c.a, c.b)
		assert.InDelta(t, c.similarity, f.Similarity, 1e-9, "%q and %q", c.a, c.b)
		assert.False(t, f.ExceedsLimit)
	}
}

func TestLengths(t *testing.T) {
	for text, want := range map[string]textdiff.Length{
		"":                      {},
		"The ferry isn't late.": {Bytes: 21, Characters: 21, Words: 4},
		"Überfahrt – 3,5 km":    {Bytes: 21, Characters: 18, Words: 4},
		" – \n":                 {Bytes: 6, Characters: 4, Words: 1},
		"渡船":                    {Bytes: 6, Characters: 2, Words: 2},
		"\xff\xfe":              {Bytes: 2, Characters: 2, Words: 1},
	} {
		assert.Equal(t, want, textdiff.MeasureLength([]byte(text)), text)
	}
}

// Tokens beyond MaxAlignedTokens count as changed, but still appear in the diff.
func TestLongTextsAreComparedInPart(t *testing.T) {
	long := func(first string) []byte { return []byte(first + strings.Repeat(" x y", textdiff.MaxAlignedTokens)) }
	f, edits := textdiff.Diff(append(long("a"), " end a"...), append(long("b"), " end b"...))
	require.True(t, f.ExceedsLimit)
	require.InDelta(t, 0.5, f.Similarity, 0.01)
	requireWhole(t, append(long("a"), " end a"...), append(long("b"), " end b"...), edits)

	// The common prefix and suffix of the texts do not count towards MaxAlignedTokens.
	f, _ = textdiff.Diff(append(long("a"), " end"...), append(long("a"), " END"...))
	require.False(t, f.ExceedsLimit)
	require.InDelta(t, 1, f.Similarity, 0.001)
}

// requireWhole fails the test unless the edits contain both texts completely, except for the white
// space in a.
func requireWhole(t *testing.T, a, b []byte, edits []textdiff.Edit) {
	t.Helper()
	var ofA, ofB []byte
	for i, e := range edits {
		require.NotEmpty(t, e.Text)
		require.False(t, i > 0 && edits[i-1].Op == e.Op, "two adjacent edits have the same kind")
		if e.Op != textdiff.OpInsert {
			ofA = append(ofA, e.Text...)
		}
		if e.Op != textdiff.OpDelete {
			ofB = append(ofB, e.Text...)
		}
	}
	require.Equal(t, string(b), string(ofB))
	require.Equal(t, withoutSpace(a), withoutSpace(ofA))
}

func withoutSpace(text []byte) string {
	return string(bytes.Join(bytes.FieldsFunc(text, unicode.IsSpace), nil))
}

// Even texts that are designed to be as expensive as possible are compared within the work limit.
func TestHostileTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(n int, words ...string) []byte {
		var text []byte
		for range n {
			text = append(text, words[random.IntN(len(words))]...)
		}
		return text
	}
	const size = 1 << 18
	for name, make := range map[string]func() []byte{
		"one line":    func() []byte { return bytes.Repeat([]byte("x"), 1<<20) },
		"two words":   func() []byte { return some(size, "a ", "b ") },
		"marks":       func() []byte { return some(size, ",", ".", "'") },
		"spaces":      func() []byte { return some(size, " ", "\n", "\u2003") },
		"apostrophes": func() []byte { return some(size, "a'", "'", "’") },
		"combining":   func() []byte { return some(size, "\u0301", "a", "\u200d") },
		"invalid":     func() []byte { return some(size, "\xff", "\xf0\x9f", "a") },
		"new words":   func() []byte { return some(size, "a", "b", "c ", "d ") },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := make(), append(make(), '!')
			f, edits := textdiff.Diff(a, b)
			require.LessOrEqual(t, f.Work, uint64(textdiff.MaxAlignedTokens*textdiff.MaxAlignedTokens/64+4*(len(a)+len(b))))
			requireWhole(t, a, b, edits)
		})
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte("The ferry is late."), []byte("No ferry today."))
	f.Add([]byte("a\u2003b ’\xff"), []byte("渡船 a"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		figures, edits := textdiff.Diff(a, b)
		requireWhole(t, a, b, edits)
		require.Equal(t, textdiff.MeasureLength(a), figures.LengthA)
		require.Equal(t, textdiff.MeasureLength(b), figures.LengthB)
		require.True(t, figures.Similarity >= 0 && figures.Similarity <= 1, "%v", figures.Similarity)
		again, _ := textdiff.Diff(a, b)
		require.Equal(t, figures, again)
		if bytes.Equal(a, b) {
			require.InDelta(t, 1, figures.Similarity, 0)
		}
	})
}

// The number of unchanged words is the length of a longest common subsequence, computed here from
// its definition.
func TestWordsThatStayAreAsManyAsPossible(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		text := func() (words []string) {
			for range random.IntN(200) {
				words = append(words, string(rune('a'+random.IntN(1+random.IntN(26)))))
			}
			return words
		}
		a, b := text(), text()
		longest := make([][]int, len(a)+1)
		longest[0] = make([]int, len(b)+1)
		for i := range a {
			longest[i+1] = make([]int, len(b)+1)
			for j := range b {
				if longest[i+1][j+1] = max(longest[i][j+1], longest[i+1][j]); a[i] == b[j] {
					longest[i+1][j+1] = longest[i][j] + 1
				}
			}
		}
		f, edits := textdiff.Diff([]byte(strings.Join(a, " ")), []byte(strings.Join(b, "\n")))
		same := 0
		for _, e := range edits {
			if e.Op == textdiff.OpEqual {
				same += len(strings.Fields(string(e.Text)))
			}
		}
		require.Equal(t, longest[len(a)][len(b)], same)
		if len(a)+len(b) > 0 {
			require.InDelta(t, float64(2*same)/float64(len(a)+len(b)), f.Similarity, 1e-12)
		}
	}
}

// On real data, Compare finds the expected median changes between two versions of a model. It also
// finds those between a plain prompt and prompts that request long or short answers.
func TestRealInput(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "generations.ndjson.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	outputs := make(map[string][]string) // maps a configuration to its outputs, in the order of the instructions
	for d := json.NewDecoder(unzipped); ; {
		var line struct {
			Record struct {
				Output string
				Labels struct{ Config string }
			}
		}
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		outputs[line.Record.Labels.Config] = append(outputs[line.Record.Labels.Config], line.Record.Output)
	}
	for _, c := range []struct {
		a, b               string
		length, similarity float64 // expected medians
	}{
		{"claude-2", "claude-2.1", 0.01, 0.34},
		{"gpt4_1106_preview", "gpt4_1106_preview_verbose", 0.17, 0.35},
		{"gpt4_1106_preview", "gpt4_1106_preview_concise", -0.47, 0.31},
	} {
		var lengths, similarities []float64
		for i, a := range outputs[c.a] {
			f := textdiff.Compare([]byte(a), []byte(outputs[c.b][i]))
			lengths = append(lengths, float64(f.LengthB.Words)/float64(f.LengthA.Words)-1)
			similarities = append(similarities, f.Similarity)
		}
		slices.Sort(lengths)
		slices.Sort(similarities)
		require.Len(t, lengths, 805)
		require.InDelta(t, c.length, lengths[402], 0.005, "%s to %s", c.a, c.b)
		require.InDelta(t, c.similarity, similarities[402], 0.005, "%s to %s", c.a, c.b)
	}
}

func BenchmarkCompare(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(words, of int) []byte {
		var out []byte
		for range words {
			n := random.IntN(of)
			out = append(out, byte('a'+n%26), byte('a'+n/26%26), ' ')
		}
		return out
	}
	for name, c := range map[string][2][]byte{
		"200 words":   {text(200, 150), text(200, 150)},
		"2000 words":  {text(2000, 400), text(2000, 400)},
		"20000 words": {text(20000, 676), text(20000, 676)},
		"two words":   {text(20000, 2), text(20000, 2)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				textdiff.Compare(c[0], c[1])
			}
		})
	}
}
