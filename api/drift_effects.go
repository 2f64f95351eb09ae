package api

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index/effects"
	"colophon/ledger/record/pyjson"
)

// pairRow is two runs that one variable tells apart. Its seq is that of a.
type pairRow struct {
	Seq           uint64        `json:"seq"`
	A             generationRow `json:"a"`
	B             generationRow `json:"b"`
	OutputChanged bool          `json:"output_changed"`
}

func (r *pairRow) proveIn(q *question) error {
	if err := r.A.proveIn(q); err != nil {
		return err
	}
	return r.B.proveIn(q)
}

// effectsAnswer is what came of a variable: how many pairs there are, and a page of
// them.
type effectsAnswer struct {
	list[pairRow]
	Variable  string `json:"variable"`
	Pairs     uint64 `json:"pairs"`
	Changed   uint64 `json:"changed"`
	Unchanged uint64 `json:"unchanged"`
}

// effects answers what came of changing one variable from a to b.
func (s *Server) effects(c echo.Context) error {
	var e effects.Query
	var a, b *string
	q, err := s.asked(c, paged|stated|provable, text("variable", &e.Variable), optionalText("a", &a), optionalText("b", &b))
	if err != nil {
		return err
	}
	defer q.close()
	if e.A, e.B, err = effectValues(e.Variable, a, b); err != nil {
		return err
	}
	e.Any = q.any
	totals, err := s.totals.of(q, e)
	if err != nil {
		return err
	}
	found, next, err := effects.List(q.ctx, q.view, e, q.page)
	if err != nil {
		return err
	}
	answer := &effectsAnswer{list[pairRow]{Rows: make([]pairRow, len(found)), Next: q.next(next)},
		e.Variable, totals.Pairs, totals.Changed, totals.Unchanged}
	for i, f := range found {
		answer.Rows[i] = pairRow{f.A.Seq, generationRowOf(&f.A), generationRowOf(&f.B), f.Changed}
		if err := answer.Rows[i].proveIn(q); err != nil {
			return err
		}
	}
	return answerOne(q, answer)
}

// effectValues are the two values as events have them.
func effectValues(variable string, a, b *string) (valueA, valueB string, err error) {
	if !slices.Contains(effects.Variables[:], variable) {
		return "", "", invalid("variable", "must be one of %s", strings.Join(effects.Variables[:], ", "))
	}
	if valueA, err = effectValue(variable, "a", a); err != nil {
		return "", "", err
	}
	if valueB, err = effectValue(variable, "b", b); err != nil {
		return "", "", err
	}
	if valueA == valueB {
		return "", "", invalid("b", "is the same value as a")
	}
	return valueA, valueB, nil
}

// maxNumber bounds a number in a parameter, in bytes: what strconv reads exactly.
const maxNumber = 64

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	doubleForm  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// effectValue is one value. Numbers are compared by their value: 0.70 is 0.7.
func effectValue(variable, name string, value *string) (string, error) {
	if value == nil {
		return "", invalid(name, "is required: a value of the variable")
	}
	switch variable {
	case "model":
		return *value, nil
	case "temperature":
		number, err := strconv.ParseFloat(*value, 64)
		if err != nil || len(*value) > maxNumber || !doubleForm.MatchString(*value) {
			return "", invalid(name, "must be a number of at most %d characters", maxNumber)
		}
		return string(pyjson.AppendFloat(nil, number)), nil
	case "max_tokens", "seed":
		number, ok := new(big.Int).SetString(*value, 10)
		if !ok || len(*value) > maxNumber || !integerForm.MatchString(*value) {
			return "", invalid(name, "must be an integer of at most %d digits", maxNumber)
		}
		return number.String(), nil
	}
	return *value, hashForm.check(name, *value)
}

// keptTotals bounds how many totals are kept.
const keptTotals = 256

// effectTotals keeps the totals of effects, which cost as much as all their pages, each
// as of the last size that it was asked for. They never change.
type effectTotals struct {
	mu   sync.Mutex // held briefly, for what follows
	kept map[totalsKey]effects.Totals
	keys []totalsKey // of kept, the oldest first
}

type totalsKey struct {
	ledger string
	query  effects.Query
}

// of counts the pairs of a query: from those of another size, if they are near.
func (t *effectTotals) of(q *question, query effects.Query) (effects.Totals, error) {
	key := totalsKey{q.ledger.Name(), query}
	known := t.find(key)
	if known != nil && known.AsOf == q.view.Size() {
		return *known, nil
	}
	totals, err := effects.Count(q.ctx, q.view, query, known)
	if err == nil {
		t.keep(key, totals)
	}
	return totals, err
}

// find is nil where none are kept.
func (t *effectTotals) find(key totalsKey) *effects.Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if totals, ok := t.kept[key]; ok {
		return &totals
	}
	return nil
}

// keep keeps totals, in place of the oldest when there are many.
func (t *effectTotals) keep(key totalsKey, totals effects.Totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[totalsKey]effects.Totals)
	}
	if _, ok := t.kept[key]; !ok {
		if len(t.keys) == keptTotals {
			delete(t.kept, t.keys[0])
			t.keys = t.keys[1:]
		}
		t.keys = append(t.keys, key)
	}
	t.kept[key] = totals
}
