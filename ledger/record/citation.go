package record

import (
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// citationsPrefix begins the name of the check of one citation.
const citationsPrefix = "citations/"

// citationSet is what a citation set puts into its event.
type citationSet struct {
	subject   []byte
	citations []citation
}

type citation struct {
	chunkHash []byte // effective, with its prefix
	sourceID  []byte
	weight    []byte // canonical JSON number
	section   []byte // as given; nil is null
}

func (s *citationSet) appendMembers(w *pyjson.Builder) {
	w.Text("subject", s.subject)
	w.Name("citations")
	w.B = append(w.B, '[')
	for i, c := range s.citations {
		w.Comma(i)
		w.Open()
		w.Text("chunk_hash", c.chunkHash)
		w.Text("source_id", c.sourceID)
		w.Raw("weight", c.weight)
		w.Nullable("section", c.section)
		w.Close()
	}
	w.B = append(w.B, ']')
}

// decodeCitations reads a citation set and checks each chunk hash (1.5).
func (r *Record) decodeCitations(d *decoder, v pyjson.Value, pointer string) {
	o := d.object(v, pointer, "run_id", "subject", "citations", "timestamp", "labels", "producer")
	r.common(o)
	s := &citationSet{subject: o.requiredText("subject", maxName)}
	r.detail = s
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
		i := len(s.citations)
		c := d.object(e, o.element("citations", i), "chunk_hash", "source_id", "text", "weight", "section")
		s.citations = append(s.citations, r.decodeCitation(c, citationsPrefix+strconv.Itoa(i)))
	}
}

// decodeCitation reads one citation; name is what its check and content begin with.
func (r *Record) decodeCitation(o object, name string) citation {
	c := citation{sourceID: o.requiredText("source_id", maxName), section: o.text("section", maxName)}
	weight, given := o.double("weight")
	switch {
	case !o.member("weight").Given():
		o.missing("weight")
	case given && (weight < 0 || weight > 1):
		o.d.invalid(o.at("weight"), "must be between 0 and 1")
	case given:
		r.scratch = o.member("weight").AppendCanonical(r.scratch[:0], pyjson.Compact)
		c.weight = r.keep(r.scratch)
	}
	claimed := o.digits("chunk_hash", rules.ChunkPrefix, 64)
	var computed []byte
	if text, given := o.strict("text"); given {
		r.addContent(name+"/text", text)
		computed = r.chunkHash(text)
	} else if !o.member("chunk_hash").Given() && !o.member("text").Given() {
		o.d.invalid(o.at("chunk_hash"), "is required, or text in its place")
	}
	c.chunkHash = r.check(name+"/chunk_hash", claimed, computed)
	return c
}

// chunkHash is the hash of a chunk's words (1.5), with its prefix.
func (r *Record) chunkHash(text []byte) []byte {
	start := len(r.arena)
	r.arena, r.scratch = rules.AppendChunkHash(r.arena, r.scratch, text)
	return r.arena[start:len(r.arena):len(r.arena)]
}
