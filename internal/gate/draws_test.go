package gate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"colophon/ledger/textdiff"
)

// drawsVariable names the environment variable that sets the number of draws per test. make gate sets
// it to 1,000.
const drawsVariable = "COLOPHON_GATE_DRAWS"

// fewDraws is the number of draws if drawsVariable is not set.
const fewDraws = 15

func draws(t *testing.T) int {
	text, given := os.LookupEnv(drawsVariable)
	if !given {
		return fewDraws
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// maxAlarms returns the number of false alarms that a test accepts: at most 7% of the draws,
// although the default level is 5%. With fewer than 1,000 draws, it accepts two more to leave room
// for chance.
func maxAlarms(draws int) int {
	most := draws * 7 / 100
	if draws < 1000 {
		most += 2
	}
	return most
}

// output is a generated text together with its words, which are computed once for all draws.
type output struct {
	text     []byte
	words    int
	features []int
}

// corpus holds the outputs that several conditions, such as models, produced for the same inputs.
type corpus struct {
	data       ComparedRuns        // assigns a number to each word
	outputs    map[string][]output // keyed by condition and indexed by input
	similarity map[[3]any]float64  // keyed by the input and the two conditions
}

func newCorpus() *corpus {
	return &corpus{outputs: make(map[string][]output), similarity: make(map[[3]any]float64)}
}

func (c *corpus) add(condition string, text []byte) {
	c.outputs[condition] = append(c.outputs[condition], output{text, int(textdiff.MeasureLength(text).Words), c.data.features(text)})
}

func (c *corpus) run(condition string, input int) Run {
	o := &c.outputs[condition][input]
	return Run{OutputHash: string(o.text), words: o.words, features: o.features, Conditions: map[string]string{"condition": condition}}
}

// one returns a case that consists of the runs of an input under the given conditions.
func (c *corpus) one(input int, baseline, candidate []string) *Case {
	one := &Case{measured: true}
	for _, condition := range baseline {
		one.Baseline = append(one.Baseline, c.run(condition, input))
	}
	for _, condition := range candidate {
		one.Candidate = append(one.Candidate, c.run(condition, input))
	}
	all := append(append([]string(nil), baseline...), candidate...)
	if len(all) == 2 {
		return one
	}
	one.similar = make([]float64, len(all)*len(all))
	for a, conditionA := range all {
		for b, conditionB := range all[:a] {
			s, known := c.similarity[[3]any{input, conditionA, conditionB}]
			if !known {
				s = textdiff.Compare(c.outputs[conditionA][input].text, c.outputs[conditionB][input].text).Similarity
				c.similarity[[3]any{input, conditionA, conditionB}], c.similarity[[3]any{input, conditionB, conditionA}] = s, s
			}
			one.similar[a*len(all)+b], one.similar[b*len(all)+a] = s, s
		}
	}
	return one
}

// with returns a ComparedRuns that consists of the given cases.
func (c *corpus) with(cases ...*Case) *ComparedRuns {
	return &ComparedRuns{Cases: cases, numbers: c.data.numbers, words: c.data.words}
}

// drawOptions uses fewer random splits per permutation test than the default, to save time.
var drawOptions = Options{SignificanceLevel: 0.05, Permutations: 499}

// verdicts calls draw draws times, runs the checks on each result, and counts each verdict.
func verdicts(draws int, draw func(*rand.Rand) *ComparedRuns) map[Verdict]int {
	counts := make(map[Verdict]int)
	for n := range draws {
		counts[RunChecks(draw(rand.New(rand.NewPCG(uint64(n), 3))), drawOptions).Verdict]++
	}
	return counts
}

// requireFewAlarms requires that the gate fails for at most maxAlarms draws. draw must draw both sets
// from the same distribution.
func requireFewAlarms(t *testing.T, draw func(*rand.Rand) *ComparedRuns) {
	n := draws(t)
	counts := verdicts(n, draw)
	t.Logf("%d false alarms in %d draws", counts[VerdictFail], n)
	require.LessOrEqual(t, counts[VerdictFail], maxAlarms(n))
	require.Zero(t, counts[VerdictUndecided])
}

// requireFound requires that the gate fails for at least the given share of the draws. draw must
// return sets that differ.
func requireFound(t *testing.T, share float64, draw func(*rand.Rand) *ComparedRuns) {
	n := draws(t)
	counts := verdicts(n, draw)
	t.Logf("found in %d of %d draws", counts[VerdictFail], n)
	require.GreaterOrEqual(t, counts[VerdictFail], int(share*float64(n)))
}

// synthetic returns a corpus of outputs that consist of random words. About half of the outputs of the
// condition "other" also contain a word that occurs nowhere else.
func synthetic() *corpus {
	const inputs, vocabulary = 120, 300
	c, random := newCorpus(), rand.New(rand.NewPCG(5, 6))
	for _, condition := range []string{"a", "b", "c", "d", "other"} {
		for range inputs {
			var text []byte
			for range 20 + random.IntN(40) {
				text = fmt.Appendf(text, "word%d ", random.IntN(vocabulary))
			}
			if condition == "other" && random.IntN(2) == 0 {
				text = append(text, "sorry"...)
			}
			c.add(condition, text)
		}
	}
	return c
}

// choose picks n conditions at random, with replacement.
func choose(random *rand.Rand, conditions []string, n int) (chosen []string) {
	for range n {
		chosen = append(chosen, conditions[random.IntN(len(conditions))])
	}
	return chosen
}

func TestDrawsOfSyntheticOutputs(t *testing.T) {
	c := synthetic()
	same := []string{"a", "b", "c", "d"}
	t.Run("no change", func(t *testing.T) {
		requireFewAlarms(t, func(random *rand.Rand) *ComparedRuns {
			var cases []*Case
			for _, input := range random.Perm(120)[:40] {
				cases = append(cases, c.one(input, choose(random, same, 1), choose(random, same, 1)))
			}
			return c.with(cases...)
		})
	})
	t.Run("no change, with repeats", func(t *testing.T) {
		requireFewAlarms(t, func(random *rand.Rand) *ComparedRuns {
			var cases []*Case
			for _, input := range random.Perm(120)[:20] {
				cases = append(cases, c.one(input, choose(random, same, 2), choose(random, same, 1)))
			}
			return c.with(cases...)
		})
	})
	t.Run("a change", func(t *testing.T) {
		requireFound(t, 1, func(random *rand.Rand) *ComparedRuns {
			var cases []*Case
			for _, input := range random.Perm(120)[:80] {
				cases = append(cases, c.one(input, choose(random, same, 1), []string{"other"}))
			}
			return c.with(cases...)
		})
	})
}

// realConditions lists the six conditions in the real data. Each of 805 instructions was answered
// once under each condition.
var realConditions = []string{"gpt4_1106_preview", "gpt4_1106_preview_verbose", "gpt4_1106_preview_concise", "claude-2", "claude-2.1", "alpaca-7b"}

func realCorpus(t *testing.T) *corpus {
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "generations.ndjson.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	c := newCorpus()
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Record struct {
				Output string
				Labels map[string]string
			}
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		c.add(line.Record.Labels["config"], []byte(line.Record.Output))
	}
	require.NoError(t, lines.Err())
	for _, condition := range realConditions {
		require.Len(t, c.outputs[condition], realInputs, "each condition must have one output for each input")
	}
	return c
}

const realInputs = 805

func TestDrawsOfRealOutputs(t *testing.T) {
	c := realCorpus(t)
	sample := func(random *rand.Rand, n int, baseline, candidate func() []string) *ComparedRuns {
		var cases []*Case
		for _, input := range random.Perm(realInputs)[:n] {
			cases = append(cases, c.one(input, baseline(), candidate()))
		}
		return c.with(cases...)
	}
	always := func(condition string) func() []string { return func() []string { return []string{condition} } }

	t.Run("no change: any model", func(t *testing.T) {
		requireFewAlarms(t, func(random *rand.Rand) *ComparedRuns {
			any := func() []string { return choose(random, realConditions, 1) }
			return sample(random, 100, any, any)
		})
	})
	t.Run("no change: any model, with repeats", func(t *testing.T) {
		requireFewAlarms(t, func(random *rand.Rand) *ComparedRuns {
			any := func() []string { return choose(random, realConditions, 2) }
			return sample(random, 50, any, any)
		})
	})
	// In each draw, both sets come from the same condition but contain different inputs.
	for _, condition := range realConditions {
		t.Run("no change: "+condition, func(t *testing.T) {
			requireFewAlarms(t, func(random *rand.Rand) *ComparedRuns {
				whole := new(Case)
				for at, input := range random.Perm(realInputs)[:200] {
					set := &whole.Baseline
					if at%2 == 1 {
						set = &whole.Candidate
					}
					*set = append(*set, c.run(condition, input))
				}
				whole.measured = true
				d := c.with(whole)
				d.ComparesWholeSets = true
				return d
			})
		})
	}
	for _, change := range []struct {
		baseline, candidate string
		inputs              int
		share               float64 // share of the draws in which the change must be found
	}{{"claude-2", "claude-2.1", 300, 1}, {"claude-2", "claude-2.1", 200, 0.9}, {"claude-2", "claude-2.1", 100, 0.3},
		{"gpt4_1106_preview", "gpt4_1106_preview_verbose", 50, 1}, {"gpt4_1106_preview", "gpt4_1106_preview_verbose", 20, 0.75}, {"gpt4_1106_preview", "gpt4_1106_preview_concise", 50, 1}} {
		t.Run(fmt.Sprintf("%s to %s in %d inputs", change.baseline, change.candidate, change.inputs), func(t *testing.T) {
			requireFound(t, change.share, func(random *rand.Rand) *ComparedRuns {
				return sample(random, change.inputs, always(change.baseline), always(change.candidate))
			})
		})
	}
}
