package record

import (
	"math"
	"strconv"

	"colophon/ledger/record/pyjson"
)

// maxProducer bounds a producer's id, in bytes.
const maxProducer = MaxShort

// Producer says who made a record and as which of its own, counted from 1: what
// is missing in the count was never posted.
type Producer struct {
	ID  []byte // nil when the record names none
	Seq []byte // decimal, 0 to 2^63-1
}

// producer reads a producer; both members are required when it is given.
func (o object) producer(r *Record, name string) Producer {
	v := o.member(name)
	if !v.Given() {
		return Producer{}
	}
	p := o.d.object(v, o.at(name), "id", "seq")
	if !p.member("id").Given() {
		p.missing("id")
	}
	id, seq := p.identifier("id", maxProducer), p.requiredCount(r, "seq")
	if seq != nil && !isProducerSeq(seq) {
		p.d.invalid(p.at("seq"), "must be at most %d", int64(math.MaxInt64))
	}
	return Producer{id, seq}
}

// isProducerSeq reports whether a count in decimal is one that a producer can have.
func isProducerSeq(seq []byte) bool {
	_, err := strconv.ParseInt(string(seq), 10, 64)
	return err == nil
}

func (p *Producer) append(w *pyjson.Builder) {
	if p.ID == nil {
		return
	}
	w.Name("producer")
	w.OpenOrdered()
	w.Text("id", p.ID)
	w.Raw("seq", p.Seq)
	w.Close()
}
