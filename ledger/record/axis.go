package record

import (
	"math"
	"math/big"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// axisPayloadHashes reads an axis payload and returns the hashes that rules.AxisPayloadHashes
// computes. If the payload is not valid, it adds problems to o.D and ok is false.
func (r *Record) axisPayloadHashes(o strict.Object, payload pyjson.Value, apart bool, member func(name, form []byte)) (whole, seedless Hash, ok bool) {
	p := o.InnerObject("payload", payload)
	members := p.RequiredObject("axes")
	policy, world := p.RequiredText("policy_hash", maxName), p.RequiredText("world_id", maxName)
	if !p.Member("seed").IsGiven() {
		p.ReportMissing("seed")
	}
	seed := r.readAxisSeed(p)

	inner := p.InnerObject("axes", members)
	var axes []rules.PayloadAxis
	for name, axis := range members.Members() {
		axes = append(axes, readAxis(inner, name.Text(), axis))
	}
	if o.Decoder.HasProblems() {
		return whole, seedless, false
	}
	whole, seedless, err := rules.AxisPayloadHashes(axes, policy, seed, world, apart, member)
	if err != nil {
		o.Decoder.ReportInvalid(p.Pointer, "cannot be converted to canonical form: %v", err)
	}
	return whole, seedless, err == nil
}

// readAxis reads one axis, an object with label and score. Problems are added to o.D.
func readAxis(o strict.Object, name []byte, axis pyjson.Value) rules.PayloadAxis {
	pointer := string(pyjson.AppendPointerToken([]byte(o.Pointer), name))
	if axis.Kind() != pyjson.Object {
		o.Decoder.ReportInvalid(pointer, `must be an object with the members "label" and "score"`)
		return rules.PayloadAxis{}
	}
	a := strict.Object{Decoder: o.Decoder, Value: axis, Pointer: pointer}
	label, given := a.UTF8("label")
	if !given && !a.Member("label").IsGiven() {
		a.ReportMissing("label")
	}
	score, given := a.Float64("score")
	switch {
	case !a.Member("score").IsGiven():
		a.ReportMissing("score")
	case given && (score < 0 || score > 1):
		a.ReportInvalid("score", "must be between 0 and 1")
	}
	return rules.PayloadAxis{Name: name, Label: label, Score: score}
}

// readAxisSeed reads the payload's seed and returns it as a decimal integer. It accepts a whole
// number with a decimal point, such as 7.0, because some clients have only one type of number.
func (r *Record) readAxisSeed(o strict.Object) []byte {
	v := o.Member("seed")
	if v.Kind() != pyjson.Float {
		return r.readInteger(o, "seed", false)
	}
	value, ok := v.Float()
	if !ok || value != math.Trunc(value) {
		o.ReportInvalid("seed", "must be a whole number")
		return nil
	}
	whole, _ := big.NewFloat(value).Int(nil)
	return r.keep(whole.Append(r.scratch[:0], 10))
}
