package record

import (
	"math"
	"math/big"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// axisPayloadHash is the hash of a payload of the schema axis-payload-1 (spec: Axis payload).
func (o object) axisPayloadHash(r *Record, payload pyjson.Value) []byte {
	p := object{o.d, payload, o.at("payload")}
	members := p.requiredObject("axes")
	policy, world := p.requiredText("policy_hash", maxName), p.requiredText("world_id", maxName)
	if !p.member("seed").Given() {
		p.missing("seed")
	}
	seed := p.axisSeed(r)

	inner := object{o.d, members, p.at("axes")}
	var axes []rules.Axis
	for name, axis := range members.Members() {
		axes = append(axes, inner.axis(name.Text(), axis))
	}
	if o.d.failed() {
		return nil
	}
	sum, err := rules.AxisPayloadHash(axes, policy, seed, world)
	if err != nil {
		o.d.invalid(p.pointer, "cannot be normalised: %v", err)
		return nil
	}
	return r.hex(sum)
}

// axis reads one axis, {label, score}.
func (o object) axis(name []byte, axis pyjson.Value) rules.Axis {
	pointer := string(pyjson.AppendPointer([]byte(o.pointer), name))
	if axis.Kind() != pyjson.Object {
		o.d.invalid(pointer, "must be an object with label and score")
		return rules.Axis{}
	}
	a := object{o.d, axis, pointer}
	label, given := a.strict("label")
	if !given && !a.member("label").Given() {
		a.missing("label")
	}
	score, given := a.double("score")
	switch {
	case !a.member("score").Given():
		a.missing("score")
	case given && (score < 0 || score > 1):
		o.d.invalid(a.at("score"), "must be between 0 and 1")
	}
	return rules.Axis{Name: name, Label: label, Score: score}
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
