package query

import (
	"colophon/client/wire"
	"colophon/ledger/index/producers"
)

// producerQuestions lists the questions about producers (spec: Producers).
var producerQuestions = []Question{
	{Path: "/producers", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWithoutParameters(Producers)},
	{Path: "/producers/:id", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(pathParameter("id"), ProducerByID)},
}

// Producers lists the producers that number their records.
func Producers(v *View) (*wire.Page[wire.ProducerRow], error) {
	found, next, err := producers.List(v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, producerRow)
}

func producerRow(v *View, p *producers.Producer) wire.ProducerRow {
	return wire.ProducerRow{RowMembers: v.row(p.LatestSeq), ID: p.ID, Records: p.Records, CompleteTo: p.CompleteTo,
		Highest: p.HighestNumber, Missing: p.MissingCount, Repeated: p.Duplicates}
}

// ProducerByID returns one producer with a page of the gaps and a page of the duplicates in its numbering.
func ProducerByID(v *View, id string) (*wire.ProducerAnswer, error) {
	found, gaps, duplicates, next, err := producers.Get(v.View, id, v.Page)
	if err != nil {
		return nil, notFound(err, "no records from this producer exist")
	}
	answer := &wire.ProducerAnswer{
		ProducerRow: producerRow(v, &found),
		Gaps:        rowsOf(v, gaps, func(_ *View, g *producers.Gap) wire.ProducerGap { return wire.ProducerGap{From: g.First, To: g.Last} }),
		Duplicates: rowsOf(v, duplicates, func(v *View, d *producers.Duplicate) wire.ProducerDuplicate {
			return wire.ProducerDuplicate{RowMembers: v.row(d.Seq), ProducerSeq: d.Number, FirstSeq: d.FirstSeq}
		}),
		Next: v.next(next),
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}
