package record

import (
	"math"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// maxProducer bounds a producer's id, in bytes.
const maxProducer = MaxShort

// producer says who made a record and as which of its own, counted from 1: what
// is missing in the count was never posted.
type producer struct {
	id  []byte // nil when the record names none
	seq []byte // decimal, 0 to 2^63-1
}

// producer reads a producer; both members are required when it is given.
func (o object) producer(r *Record, name string) producer {
	v := o.member(name)
	if !v.Given() {
		return producer{}
	}
	p := o.d.object(v, o.at(name), "id", "seq")
	if !p.member("id").Given() {
		p.missing("id")
	}
	id, seq := p.identifier("id", maxProducer), p.requiredCount(r, "seq")
	if _, err := strconv.ParseInt(string(seq), 10, 64); seq != nil && err != nil {
		p.d.invalid(p.at("seq"), "must be at most %d", int64(math.MaxInt64))
	}
	return producer{id, seq}
}

func (p producer) append(w *pyjson.Builder) {
	if p.id == nil {
		return
	}
	w.Name("producer")
	w.Open()
	w.Text("id", p.id)
	w.Raw("seq", p.seq)
	w.Close()
}
