package query

import (
	"colophon/client/wire"
	"colophon/ledger/index/citations"
)

// Questions about sources (spec: Unregistered sources).
var sourceQuestions = []Question{
	{Path: "/sources", Takes: Pages | Proofs, Ask: plain(Sources)},
	{Path: "/sources/:source_id", Takes: Proofs, Ask: asking(parseSource, Source)},
}

// Sources lists the sources that are or were registered.
func Sources(v *View) (*wire.Page[wire.Source], error) {
	found, next, err := citations.Sources(v.Context, v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, sourceRow)
}

func sourceRow(v *View, s *citations.SourceDetail) wire.Source {
	row := wire.Source{Row: v.row(s.Seq), SourceID: s.ID, Registered: s.Registered, Time: timeOf(s.Time), Title: s.Title, Reason: s.Reason}
	if s.Listed {
		row.ChunkCount = &s.Chunks
	}
	return row
}

// Source returns one source with the chunks in its registration.
func Source(v *View, id string) (*wire.SourceAnswer, error) {
	found, err := citations.ReadSource(v.Context, v.View, id)
	if err != nil {
		return nil, notFound(err, "no source with that id was ever registered")
	}
	answer := &wire.SourceAnswer{Source: sourceRow(v, &found)}
	if found.Listed {
		answer.ChunkHashes = orEmpty(found.ChunkHashes)
	}
	answer.View, err = v.tree()
	return answer, err
}
