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

// pairRow is a pair of runs that differ in one variable only. Its seq is that of a.
type pairRow struct {
	Seq           uint64        `json:"seq"`
	A             generationRow `json:"a"`
	B             generationRow `json:"b"`
	OutputChanged bool          `json:"output_changed"`
}

func (r *pairRow) proveIn(q *indexQuery) error {
	if err := r.A.proveIn(q); err != nil {
		return err
	}
	return r.B.proveIn(q)
}

// effectsAnswer is a page of pairs, with the number of all pairs.
type effectsAnswer struct {
	list[pairRow]
	Variable  string `json:"variable"`
	Pairs     uint64 `json:"pairs"`
	Changed   uint64 `json:"changed"`
	Unchanged uint64 `json:"unchanged"`
}

// effects answers how the output changed when one variable changed from a to b.
func (s *Server) effects(c echo.Context) error {
	var e effects.Query
	var a, b *string
	q, err := s.openQuery(c, withPages|withState|withProofs, text("variable", &e.Variable), optionalText("a", &a), optionalText("b", &b))
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

// effectValues returns the two values in the form that events use.
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

// maxNumber bounds the length of a number in a parameter, in bytes. strconv reads numbers of
// this length exactly.
const maxNumber = 64

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	doubleForm  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// effectValue returns one value in canonical form, so that 0.70 equals 0.7.
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

const maxTotals = 256

// effectTotals caches the totals of effect queries, each at the size of its latest request.
// Counting them costs as much as reading all pages. The totals of one size never change.
type effectTotals struct {
	mu   sync.Mutex // guards the fields below; held briefly
	kept map[totalsKey]effects.Totals
	keys []totalsKey // of kept, the oldest first
}

type totalsKey struct {
	ledger string
	query  effects.Query
}

// of returns the totals of a query. It counts on from cached totals of another size if that is
// close.
func (t *effectTotals) of(q *indexQuery, query effects.Query) (effects.Totals, error) {
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

// find returns nil if no totals are cached.
func (t *effectTotals) find(key totalsKey) *effects.Totals {
	t.mu.Lock()
	defer t.mu.Unlock()
	if totals, ok := t.kept[key]; ok {
		return &totals
	}
	return nil
}

// keep caches totals. It evicts the oldest if the cache is full.
func (t *effectTotals) keep(key totalsKey, totals effects.Totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[totalsKey]effects.Totals)
	}
	if _, ok := t.kept[key]; !ok {
		if len(t.keys) == maxTotals {
			delete(t.kept, t.keys[0])
			t.keys = t.keys[1:]
		}
		t.keys = append(t.keys, key)
	}
	t.kept[key] = totals
}
