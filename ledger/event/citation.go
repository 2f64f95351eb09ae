package event

import "colophon/ledger/record/fields"

// Citation is one citation in a citation set.
type Citation = fields.Citation

// CitationSet holds the fields of a citation_set event (spec: Citation set).
type CitationSet = fields.CitationSet

// CitationSet reads the fields of a citation_set event.
func (e *Event) CitationSet() CitationSet {
	r := CitationSet{Subject: text(e.Record.Member("subject"))}
	for c := range e.Record.Member("citations").Elements() {
		r.Citations = append(r.Citations, Citation{
			ChunkHash: text(c.Member("chunk_hash")),
			SourceID:  text(c.Member("source_id")),
			Section:   text(c.Member("section")),
			Weight:    raw(c.Member("weight")),
		})
	}
	return r
}
