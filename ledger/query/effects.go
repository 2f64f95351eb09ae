package query

import (
	"strings"

	"colophon/client/wire"
	"colophon/ledger/figures"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/records"
	"colophon/ledger/query/forms"
)

// effectQuestions lists the questions about effects (spec: Causes).
var effectQuestions = []Question{
	{Path: "/drift/effects", SharedParameters: PageParameters | StateParameter | ProofsParameter | SeededParameter | TextParameter | NamesParameter, ParameterNames: []string{"variable", "a", "b", "totals"}, ParseParameters: askWith(parseEffects, Effects)},
}

// EffectsQuery selects the pairs of runs that show the effect of one variable.
type EffectsQuery struct {
	effects.Query
	FirstPairsOnly bool // the totals cover only the first figures.MaxPairs pairs of the list
}

// Effects lists the pairs of runs that differ in only one variable, and counts them.
func Effects(v *View, q EffectsQuery) (*wire.EffectsAnswer, error) {
	q.AnyState, q.SeededOnly = v.AnyState, v.SeededOnly
	var first effects.PairPage
	var err error
	if q.FirstPairsOnly || v.TextComparer != nil && v.Page.After == nil {
		first, err = effects.FirstPage(v.Context, v.View, q.Query, figures.MaxPairs)
	}
	totals := first.Totals
	if !q.FirstPairsOnly && err == nil {
		totals, err = v.CountCache.Totals(v.Context, v.Log.Name(), v.View, q.Query)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := effects.ListPairs(v.Context, v.View, q.Query, v.Page)
	if err != nil {
		return nil, err
	}
	pairs, err := runPage(v, found, next, effectPair)
	if err != nil {
		return nil, err
	}
	answer := &wire.EffectsAnswer{RunPage: *pairs, Variable: q.Variable, Pairs: totals.Pairs, Changed: totals.ChangedPairs, Unchanged: totals.UnchangedPairs, Partial: q.FirstPairsOnly && first.HasMore}
	return answer, v.addEffectTexts(answer, &first)
}

// addEffectTexts adds figures about texts to an answer. Only the first page has the summary.
func (v *View) addEffectTexts(answer *wire.EffectsAnswer, first *effects.PairPage) (err error) {
	if v.TextComparer == nil {
		return nil
	}
	if v.Page.After == nil {
		if answer.Text, err = v.TextComparer.SummarizePairs(v.Context, first.Seqs, first.HasMore, v.Page.Limit); err != nil {
			return err
		}
		for i := range answer.Text.MostChanged {
			pair := &answer.Text.MostChanged[i]
			pair.Name = v.textName(pair.A, records.NameInputHash)
		}
	}
	var work figures.Work
	for i := range answer.Rows {
		row := &answer.Rows[i]
		if row.Text, err = v.outputChange(&row.A.Seq, row.B.Seq, &work); err != nil {
			return err
		}
	}
	return v.err
}

func effectPair(v *View, p *effects.Pair) wire.EffectPair {
	return wire.EffectPair{Seq: p.A.Seq, A: generation(v, &p.A), B: generation(v, &p.B), OutputChanged: p.OutputChanged}
}

// parseEffects parses the variable and the two values, and returns them in the form that events use.
func parseEffects(p Parameters) (q EffectsQuery, err error) {
	q.Variable = p["variable"]
	if !effects.IsVariable(q.Variable) {
		return q, invalid("variable", "must be one of %s, label:<name>, or the JSON pointer of a member of the payload, such as /policy_hash", strings.Join(effects.Variables[:], ", "))
	}
	if q.A, err = effectValue(p, q.Variable, "a"); err != nil {
		return q, err
	}
	if q.B, err = effectValue(p, q.Variable, "b"); err != nil {
		return q, err
	}
	if q.A == q.B {
		return q, invalid("b", `must differ from the parameter "a"`)
	}
	q.FirstPairsOnly, err = p.ParseChoice("totals", "all", "first")
	return q, err
}

// effectValue returns a value of the variable in canonical form, so that 0.70 equals 0.7.
func effectValue(p Parameters, variable, name string) (string, error) {
	value, given := p[name]
	if !given {
		return "", invalid(name, "is required: a value of the variable")
	}
	canonical, expected := forms.CanonicalValue(variable, value)
	if expected != "" {
		return "", invalid(name, "must be %s", expected)
	}
	return canonical, nil
}
