package drift

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/event"
)

// stages parses texts of the form "name=hash".
func stages(texts ...string) []event.NamedHash {
	var list []event.NamedHash
	for _, text := range texts {
		name, hash, _ := cutLast(text)
		list = append(list, event.NamedHash{Name: []byte(name), Hash: []byte(hash)})
	}
	return list
}

func cutLast(text string) (name, hash string, ok bool) {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '=' {
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func TestCompareStages(t *testing.T) {
	for name, test := range map[string]struct {
		a, b []event.NamedHash
		want StageChange
	}{
		"equal":     {stages("q=1", "a=2"), stages("q=1", "a=2"), StageChange{StageCount: 2}},
		"two alike": {stages("q=1", "a=2", "v=3"), stages("q=1", "a=9", "v=9"), StageChange{DifferingStages: []string{"a", "v"}, StageCount: 3}},
		"with preflight": {stages("q=1", "r=2"), stages("q=1", "p=7", "r=2"),
			StageChange{DifferingStages: []string{"p"}, StagesOnlyInB: []string{"p"}, StageCount: 3}},
		"without preflight": {stages("q=1", "p=7", "r=2"), stages("q=1", "r=3"),
			StageChange{DifferingStages: []string{"p", "r"}, StagesOnlyInA: []string{"p"}, StageCount: 3}},
		"other shape": {stages("q=1", "context=2", "l=4"), stages("q=1", "map=3", "l=4"),
			StageChange{DifferingStages: []string{"map", "context"}, StagesOnlyInA: []string{"context"}, StagesOnlyInB: []string{"map"}, StageCount: 4}},
		"earlier in the known shapes": {stages("question=1", "preflight=7", "final_label=9"), stages("question=1", "retrieval=2", "render=3", "final_label=9"),
			StageChange{DifferingStages: []string{"preflight", "retrieval", "render"}, StagesOnlyInA: []string{"preflight"}, StagesOnlyInB: []string{"retrieval", "render"}, StageCount: 5}},
		"same place in the known shapes": {stages("question=1", "context=2", "answer=3"), stages("question=1", "evidence_map=2", "raw_answer=3"),
			StageChange{DifferingStages: []string{"evidence_map", "context", "raw_answer", "answer"}, StagesOnlyInA: []string{"context", "answer"},
				StagesOnlyInB: []string{"evidence_map", "raw_answer"}, StageCount: 5}},
		"repeated": {stages("a=1", "a=2"), stages("a=1", "a=3", "a=4"),
			StageChange{DifferingStages: []string{"a", "a"}, StagesOnlyInB: []string{"a"}, StageCount: 3}},
		"moved": {stages("q=1", "r=2", "l=3"), stages("q=1", "l=3", "r=2"), StageChange{DifferingStages: []string{"r"}, StageCount: 3}},
		"none":  {nil, stages("q=1"), StageChange{DifferingStages: []string{"q"}, StagesOnlyInB: []string{"q"}, StageCount: 1}},
	} {
		got := CompareStages(test.a, test.b)
		require.Equal(t, test.want, got, name)
	}
	change := CompareStages(nil, stages("q=1"))
	require.Equal(t, "q", change.FirstDivergence())
	change = CompareStages(nil, nil)
	require.Empty(t, change.FirstDivergence())
}

// CompareStages reports differing stages if and only if the lists differ. StagesOnlyInA and
// StagesOnlyInB list the stages that occur more often in one list than in the other. The first
// differing stage is where the lists diverge.
func TestCompareStagesProperties(t *testing.T) {
	drawn := rapid.SliceOfN(rapid.SampledFrom([]string{"q=1", "q=2", "r=1", "r=2", "=1", "v=1"}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		textsA, textsB := drawn.Draw(t, "a"), drawn.Draw(t, "b")
		a, b := stages(textsA...), stages(textsB...)
		c := CompareStages(a, b)
		require.Equal(t, slices.Equal(textsA, textsB), len(c.DifferingStages) == 0)
		count := func(list []event.NamedHash, name string) (n int) {
			for _, s := range list {
				if string(s.Name) == name {
					n++
				}
			}
			return n
		}
		only := func(list []string, name string) (n int) {
			return count(stages(list...), name)
		}
		both := 0
		for _, name := range []string{"q", "r", "", "v"} {
			inA, inB := count(a, name), count(b, name)
			require.Equal(t, max(0, inA-inB), only(c.StagesOnlyInA, name))
			require.Equal(t, max(0, inB-inA), only(c.StagesOnlyInB, name))
			both += max(inA, inB)
		}
		require.Equal(t, both, c.StageCount)
		require.LessOrEqual(t, len(c.DifferingStages), c.StageCount)
		part := 0
		for part < min(len(a), len(b)) && textsA[part] == textsB[part] {
			part++
		}
		var parting []string
		for _, list := range [][]event.NamedHash{a, b} {
			if part < len(list) {
				parting = append(parting, string(list[part].Name))
			}
		}
		if len(c.DifferingStages) > 0 {
			require.Contains(t, parting, c.FirstDivergence())
		}
		back := CompareStages(b, a)
		require.Equal(t, c.StagesOnlyInA, back.StagesOnlyInB)
		require.Equal(t, c.StagesOnlyInB, back.StagesOnlyInA)
	})
}

// A rejected run and an answered one diverge at their outcome, unless their questions or their
// preflights differ.
func TestRejectedAgainstAnswered(t *testing.T) {
	rejected := stages("question=1", "preflight=2", "final_label=3")
	quote := stages("question=1", "retrieval=4", "context=5", "prompt=6", "answer=7", "verify=8", "final_label=9")
	after := func(preflight string, list []event.NamedHash) []event.NamedHash {
		return slices.Concat(list[:1], stages(preflight), list[1:])
	}
	pointer := stages("question=1", "retrieval=4", "evidence_map=5", "prompt=6", "raw_answer=7", "parsed_claim_lattice=7", "verify=8", "render=8", "final_label=9")
	for name, test := range map[string]struct {
		a, b []event.NamedHash
		want string
	}{
		"quote":             {rejected, after("preflight=2", quote), "outcome"},
		"quote, other way":  {after("preflight=2", quote), rejected, "outcome"},
		"pointer":           {rejected, after("preflight=2", pointer), "outcome"},
		"without preflight": {quote, rejected, "outcome"},
		"other preflight":   {rejected, after("preflight=x", quote), "preflight"},
		"other question":    {rejected, after("preflight=2", append(stages("question=x"), quote[1:]...)), "question"},
		"two rejected":      {rejected, stages("question=1", "preflight=2", "final_label=4"), "final_label"},
		"neither":           {rejected, stages("question=1", "preflight=2", "retrieval=4"), "retrieval"},
	} {
		c := CompareStages(test.a, test.b)
		require.Equal(t, test.want, c.FirstDivergence(), name)
		require.Equal(t, test.want == "outcome", c.OutcomeDiffers, name)
	}
	c := CompareStages(rejected, after("preflight=2", quote))
	require.Equal(t, "Preflight rejected one run, but the other was answered; 6 of 8 stages differ; the cache dimensions agree.", c.Sentence(nil, true))
}

func TestCompareDimensions(t *testing.T) {
	a := []event.NamedHash{{Name: []byte("source_root"), Hash: []byte("1")}, {Name: []byte("schema_version"), Hash: nil}}
	_, known := DifferingDimensions(a, nil)
	require.False(t, known)
	_, known = DifferingDimensions(nil, a)
	require.False(t, known)
	differing, known := DifferingDimensions(a, a[:1])
	require.True(t, known)
	require.Empty(t, differing, "null and absent are equal")
	b := []event.NamedHash{{Name: []byte("source_root"), Hash: []byte("2")}, {Name: []byte("verifier_policy_hash"), Hash: []byte("3")}}
	differing, _ = DifferingDimensions(a, b)
	require.Equal(t, []string{"source_root", "verifier_policy_hash"}, differing)
}

func TestSentences(t *testing.T) {
	for want, test := range map[string]struct {
		a, b       []event.NamedHash
		dimensions []string
		known      bool
	}{
		"No stage differs; the cache dimensions agree.":                                                    {stages("q=1"), stages("q=1"), nil, true},
		`Of 2 stages, only "r" differs; at least one run has no cache dimensions.`:                         {stages("q=1", "r=1"), stages("q=1", "r=2"), nil, false},
		`The runs diverge first at "q"; 2 of 2 stages differ; these cache dimensions differ: source_root.`: {stages("q=1", "r=1"), stages("q=2", "r=2"), []string{"source_root"}, true},
	} {
		c := CompareStages(test.a, test.b)
		require.Equal(t, want, c.Sentence(test.dimensions, test.known))
	}
}

func TestCompareChunks(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		want          ChunkChange
	}{
		"both empty": {nil, nil, ChunkChange{Jaccard: 1}},
		"the first":  {nil, []string{"b", "a", "b"}, ChunkChange{Added: []string{"b", "a"}}},
		"emptied":    {[]string{"b", "a"}, nil, ChunkChange{Removed: []string{"b", "a"}}},
		"repeated":   {[]string{"a", "a", "c"}, []string{"a", "b", "a"}, ChunkChange{Added: []string{"b"}, Removed: []string{"c"}, Kept: []string{"a"}, Jaccard: 0.333333}},
		"reordered":  {[]string{"a", "b"}, []string{"b", "a"}, ChunkChange{Kept: []string{"b", "a"}, Jaccard: 1}},
	} {
		require.Equal(t, test.want, CompareChunks(test.before, test.after), name)
	}
}
