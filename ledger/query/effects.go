package query

import (
	"strings"

	"colophon/client/wire"
	"colophon/ledger/figures"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/records"
	"colophon/ledger/query/forms"
	"colophon/ledger/record/members"
)

// Questions about effects (spec: Causes).
var effectQuestions = []Question{
	{Path: "/drift/effects", Takes: Pages | States | Proofs | Seeds | Figures | Named, Names: []string{"variable", "a", "b"}, Ask: asking(parseEffects, Effects)},
}

// Effects lists the pairs of runs that differ only in one variable, and counts all of them.
func Effects(v *View, q effects.Query) (*wire.EffectsAnswer, error) {
	q.AnyState, q.Seeded = v.AnyState, v.Seeded
	totals, err := v.Totals.Totals(v.Context, v.Log.Name(), v.View, q)
	if err != nil {
		return nil, err
	}
	found, next, err := effects.List(v.Context, v.View, q, v.Page)
	if err != nil {
		return nil, err
	}
	pairs, err := runPage(v, found, next, effectPair)
	if err != nil {
		return nil, err
	}
	answer := &wire.EffectsAnswer{RunPage: *pairs, Variable: q.Variable, Pairs: totals.Pairs, Changed: totals.Changed, Unchanged: totals.Unchanged}
	return answer, v.addEffectTexts(answer, q)
}

// addEffectTexts adds figures about texts to an answer. Only the first page has the summary.
func (v *View) addEffectTexts(answer *wire.EffectsAnswer, q effects.Query) (err error) {
	if v.Texts == nil {
		return nil
	}
	if v.Page.After == nil {
		var sample figures.Sample
		if err := effects.EachPair(v.Context, v.View, q, func(pair effects.PairSeqs) { sample.Add(pair.A, pair.B) }); err != nil {
			return err
		}
		if answer.Text, err = v.Texts.Summary(v.Context, &sample, v.Page.Limit); err != nil {
			return err
		}
		for i := range answer.Text.MostChanged {
			pair := &answer.Text.MostChanged[i]
			pair.Name = v.textName(pair.A, records.InputHash)
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
	return wire.EffectPair{Seq: p.A.Seq, A: generation(v, &p.A), B: generation(v, &p.B), OutputChanged: p.Changed}
}

// parseEffects parses the variable and the two values, and returns them in the form that
// events use.
func parseEffects(p Parameters) (q effects.Query, err error) {
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
		err = invalid("b", "must differ from a")
	}
	return q, err
}

// effectValue returns a value of the variable in canonical form, so that 0.70 equals 0.7.
func effectValue(p Parameters, variable, name string) (string, error) {
	value, given := p[name]
	if !given {
		return "", invalid(name, "is required: a value of the variable")
	}
	switch {
	case variable[0] == '/':
		if !members.IsDigest([]byte(value)) {
			return "", invalid(name, "must be the digest of the member as in events: 32 lower-case hexadecimal digits")
		}
		return value, nil
	case variable == records.Model || variable == records.OllamaBuild || strings.HasPrefix(variable, records.LabelPrefix):
		return value, nil
	case variable == "temperature":
		number, ok := forms.CanonicalDouble(value)
		if !ok {
			return "", invalid(name, "must be a number of at most %d characters", forms.MaxNumber)
		}
		return number, nil
	case variable == "max_tokens" || variable == "seed":
		number, ok := forms.CanonicalInteger(value)
		if !ok {
			return "", invalid(name, "must be an integer of at most %d digits", forms.MaxNumber)
		}
		return number, nil
	}
	return value, checkForm(forms.Hash, name, value)
}
