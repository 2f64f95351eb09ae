package record

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/strict"
)

// goodRecords contains a valid record of each kind.
var goodRecords = map[Kind]string{KindIPCRecord: goodIPC, KindRunDAG: goodDAG, KindCitationSet: goodSet, KindPathFingerprint: goodPath}

func withProducer(good, producer string) []byte {
	return []byte(`{"producer":` + producer + `,` + good[1:])
}

func TestProducerIsInTheEvent(t *testing.T) {
	for kind, good := range goodRecords {
		plain := parse(t, kind, []byte(good))
		for given, want := range map[string]string{
			`{"id":"web/7","seq":0}`:                                                   `{"id":"web/7","seq":0}`,
			`{"seq":9223372036854775807,"id":"\u00e9\u0001"}`:                          `{"id":"é\u0001","seq":9223372036854775807}`,
			`{"id":"` + strings.Repeat("x", fields.MaxProducerIDBytes) + `","seq":-0}`: `{"id":"` + strings.Repeat("x", fields.MaxProducerIDBytes) + `","seq":0}`,
		} {
			r := parse(t, kind, withProducer(good, given))
			require.NotEqual(t, plain.Digest, r.Digest, "the producer is part of the record")
			require.Equal(t, string(plain.HashesJSON()), string(r.HashesJSON()), "no hash covers the producer")
			event := AppendBodySuffix(r.AppendBodyPrefix(nil, EventContext{Actor: "a", Ledger: "l"}), 1, time.Unix(0, 0))
			var d pyjson.Document
			require.NoError(t, d.Parse(event))
			require.Equal(t, want, string(d.Root().Member("record").Member("producer").Raw()))
			require.Equal(t, string(event), string(d.Root().AppendCanonical(nil, pyjson.CompactForm)))
			require.Contains(t, string(r.AppendComputedJSON(nil)), `"producer":`+want)
		}
		for _, without := range []*Record{plain, parse(t, kind, withProducer(good, `null`))} {
			require.NotContains(t, string(without.AppendBodyPrefix(nil, EventContext{})), "producer")
		}
	}
}

func TestBadProducerIsReported(t *testing.T) {
	for kind, good := range goodRecords {
		for _, c := range []struct {
			given     string
			malformed bool
			pointer   string
		}{
			{`"web"`, false, "/producer"},
			{`[]`, false, "/producer"},
			{`{}`, false, "/producer/id"},
			{`{"seq":1}`, false, "/producer/id"},
			{`{"id":null,"seq":1}`, false, "/producer/id"},
			{`{"id":7,"seq":1}`, false, "/producer/id"},
			{`{"id":"","seq":1}`, false, "/producer/id"},
			{`{"id":"` + strings.Repeat("é", fields.MaxProducerIDBytes/2) + `x","seq":1}`, false, "/producer/id"},
			{`{"id":"\udc00","seq":1}`, false, "/producer/id"},
			{`{"id":"a"}`, false, "/producer/seq"},
			{`{"id":"a","seq":null}`, false, "/producer/seq"},
			{`{"id":"a","seq":-1}`, false, "/producer/seq"},
			{`{"id":"a","seq":1.0}`, false, "/producer/seq"},
			{`{"id":"a","seq":true}`, false, "/producer/seq"},
			{`{"id":"a","seq":"1"}`, false, "/producer/seq"},
			{`{"id":"a","seq":9223372036854775808}`, false, "/producer/seq"},
			{`{"id":"a","seq":1` + strings.Repeat("0", 4000) + `}`, false, "/producer/seq"},
			{`{"id":"a","seq":1,"name":"b"}`, true, "/producer/name"},
			{`{"id":"a","seq":1,"seq":1}`, true, "/producer"},
		} {
			_, err := Parse(kind, withProducer(good, c.given))
			var problem *strict.Error
			require.ErrorAs(t, err, &problem, "%.200s", c.given)
			require.Equal(t, c.malformed, problem.Malformed, "%.200s", c.given)
			require.Equal(t, c.pointer, problem.Problems[0].Pointer, "%.200s: %v", c.given, err)
		}
	}
	_, err := ParseBatchLine([]byte(`{"kind":"citation_set","record":` + string(withProducer(goodSet, `{"id":"a"}`)) + `}`))
	require.ErrorContains(t, err, "/record/producer/seq")
}
