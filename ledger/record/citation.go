package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// citationsPrefix begins the name of the check of one citation.
const citationsPrefix = "citations/"

// decodeCitations reads a citation set and checks each chunk hash (spec: Citation set).
func (r *Record) decodeCitations(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "subject", "citations", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	s := &SetFields{Subject: o.requiredText("subject", maxName)}
	r.fields = s
	list := o.array("citations")
	if !o.member("citations").Given() {
		o.missing("citations")
	}
	if !o.fits("citations", list, len(rules.ChunkPrefix)+64+len(`{"chunk_hash":"","section":null,"source_id":"","weight":0},`), "split it into several records") {
		return
	}
	for e := range list.Elements() {
		if d.full() {
			return
		}
		i := len(s.Citations)
		c := d.object(e, o.element("citations", i), "chunk_hash", "source_id", "text", "weight", "section")
		s.Citations = append(s.Citations, r.decodeCitation(c, citationsPrefix+strconv.Itoa(i)))
	}
}

// decodeCitation reads one citation; name is what its check and content begin with.
func (r *Record) decodeCitation(o object, name string) CitationField {
	c := CitationField{SourceID: o.requiredText("source_id", maxName), Section: o.text("section", maxName)}
	weight, given := o.double("weight")
	switch {
	case !o.member("weight").Given():
		o.missing("weight")
	case given && (weight < 0 || weight > 1):
		o.d.invalid(o.at("weight"), "must be between 0 and 1")
	case given:
		r.scratch = o.member("weight").AppendCanonical(r.scratch[:0], pyjson.Compact)
		c.Weight = r.keep(r.scratch)
	}
	claimed := o.digits("chunk_hash", rules.ChunkPrefix, 64)
	var computed []byte
	if text, given := o.strict("text"); given {
		r.addContent(name+"/text", text)
		computed = r.chunkHash(text)
	} else if !o.member("chunk_hash").Given() && !o.member("text").Given() {
		o.d.invalid(o.at("chunk_hash"), "is required, or text in its place")
	}
	c.ChunkHash = r.check(name+"/chunk_hash", claimed, computed)
	return c
}

// chunkHash is the hash of a chunk's words (spec: Citation hashes), with its prefix.
func (r *Record) chunkHash(text []byte) []byte {
	start := len(r.arena)
	r.arena, r.scratch = rules.AppendChunkHash(r.arena, r.scratch, text)
	return r.arena[start:len(r.arena):len(r.arena)]
}
