package record

import (
	"math"
	"math/big"

	"colophon/ledger/record/pyjson"
)

// appendAxisPayload is a payload of the schema axis-payload-1 in spaced
// canonical JSON (1.3): labels stripped, scores doubles, seed an integer, other
// members dropped.
func (o object) appendAxisPayload(r *Record, payload pyjson.Value) []byte {
	p := object{o.d, payload, o.at("payload")}
	axes := p.requiredObject("axes")
	policy, world := p.requiredText("policy_hash", maxName), p.requiredText("world_id", maxName)
	if !p.member("seed").Given() {
		p.missing("seed")
	}
	seed := p.axisSeed(r)

	inner := object{o.d, axes, p.at("axes")}
	w := &builder{}
	w.open()
	w.name("axes")
	w.open()
	for name, axis := range axes.Members() {
		w.name(string(name.Text()))
		inner.axis(w, name.Text(), axis)
	}
	w.close()
	w.text("policy_hash", policy)
	w.raw("seed", seed)
	w.text("world_id", world)
	w.close()
	if o.d.failed() {
		return nil
	}
	var spaced pyjson.Document
	if err := spaced.Parse(w.b); err != nil {
		o.d.invalid(p.pointer, "cannot be normalised: %v", err)
		return nil
	}
	return spaced.Root().AppendCanonical(r.scratch[:0], pyjson.Spaced)
}

// axis writes one axis, {label, score}.
func (o object) axis(w *builder, name []byte, axis pyjson.Value) {
	pointer := string(pyjson.AppendPointer([]byte(o.pointer), name))
	w.open()
	defer w.close()
	if axis.Kind() != pyjson.Object {
		o.d.invalid(pointer, "must be an object with label and score")
		return
	}
	a := object{o.d, axis, pointer}
	if label, given := a.strict("label"); given {
		w.text("label", pyjson.Strip(label))
	} else if !a.member("label").Given() {
		a.missing("label")
	}
	score, given := a.double("score")
	switch {
	case !a.member("score").Given():
		a.missing("score")
	case given && (score < 0 || score > 1):
		o.d.invalid(a.at("score"), "must be between 0 and 1")
	case given:
		w.name("score")
		w.b = pyjson.AppendFloat(w.b, score)
	}
}

// axisSeed is the payload's seed as an integer: a number that is whole may be
// written with a fraction, for clients that know one kind of number only.
func (o object) axisSeed(r *Record) []byte {
	v := o.member("seed")
	if v.Kind() != pyjson.Float {
		return o.integer(r, "seed", false)
	}
	value, ok := v.Float()
	if !ok || value != math.Trunc(value) {
		o.d.invalid(o.at("seed"), "must be a whole number")
		return nil
	}
	whole, _ := big.NewFloat(value).Int(nil)
	return r.keep(whole.Append(r.scratch[:0], 10))
}
