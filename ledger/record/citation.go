package record

import (
	"fmt"
	"iter"
	"strconv"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// citationsPrefix is the prefix of the names of citation checks.
const citationsPrefix = "citations/"

// decodeCitations decodes a citation set and checks each chunk hash (spec: Citation set). Problems
// are added to d.
func (r *Record) decodeCitations(d *strict.Decoder, v pyjson.Value, pointer string) {
	o := d.Object(v, pointer, "run_id", "subject", "citations", "timestamp", "labels", "producer")
	r.decodeCommon(o)
	s := &fields.CitationSet{Subject: o.RequiredText("subject", maxName)}
	r.fields = s
	list := o.Array("citations")
	if !o.Member("citations").IsGiven() {
		o.ReportMissing("citations")
	}
	if !fitsEntry(o, "citations", list, len(rules.ChunkHashPrefix)+64+len(`{"chunk_hash":"","section":null,"source_id":"","weight":0},`), "split the citations across several records") {
		return
	}
	for e := range list.Elements() {
		if d.IsFull() {
			return
		}
		i := len(s.Citations)
		c := d.Object(e, o.ElementPointer("citations", i), "chunk_hash", "source_id", "text", "weight", "section")
		s.Citations = append(s.Citations, r.decodeCitation(c, citationsPrefix+strconv.Itoa(i)))
	}
}

// CitedSourceIDs yields, for each citation of a set, the JSON pointer to its source_id in the
// request body and the source_id. It yields nothing for other kinds of records.
func (r *Record) CitedSourceIDs() iter.Seq2[string, string] {
	return func(yield func(pointer, source string) bool) {
		s, is := r.fields.(*fields.CitationSet)
		if !is {
			return
		}
		for i := range s.Citations {
			if !yield(fmt.Sprintf("%s/%s%d/source_id", r.pointer, citationsPrefix, i), string(s.Citations[i].SourceID)) {
				return
			}
		}
	}
}

// decodeCitation decodes one citation. The names of the citation's check and of its content begin
// with name.
func (r *Record) decodeCitation(o strict.Object, name string) fields.Citation {
	c := fields.Citation{SourceID: o.RequiredText("source_id", maxName), Section: o.Text("section", maxName)}
	weight, given := o.Float64("weight")
	switch {
	case !o.Member("weight").IsGiven():
		o.ReportMissing("weight")
	case given && (weight < 0 || weight > 1):
		o.ReportInvalid("weight", "must be between 0 and 1")
	case given:
		r.scratch = o.Member("weight").AppendCanonical(r.scratch[:0], pyjson.CompactForm)
		c.Weight = r.keep(r.scratch)
	}
	claimed := o.HexDigits("chunk_hash", rules.ChunkHashPrefix, 64)
	var computed []byte
	if text, given := o.UTF8("text"); given {
		r.addContent(name+"/text", text)
		computed = r.chunkHash(text)
	} else if !o.Member("chunk_hash").IsGiven() && !o.Member("text").IsGiven() {
		o.ReportInvalid("chunk_hash", `is required if the member "text" is not given`)
	}
	c.ChunkHash = r.check(name+"/chunk_hash", claimed, computed)
	return c
}

// chunkHash returns the hash of the words in a chunk's text (spec: Citation hashes), including the
// prefix rules.ChunkHashPrefix.
func (r *Record) chunkHash(text []byte) []byte {
	start := len(r.arena)
	r.arena, r.scratch = rules.AppendChunkHash(r.arena, r.scratch, text)
	return r.arena[start:len(r.arena):len(r.arena)]
}
