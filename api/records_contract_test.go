package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	recordsOf = prefix + "/records"
	recordOf  = prefix + "/records/{seq}"
	runOf     = prefix + "/runs/{run_id}"
)

// recordList decodes a page of records.
type recordList struct {
	AsOf uint64 `json:"as_of"`
	Rows []struct {
		Seq        uint64             `json:"seq"`
		Kind       string             `json:"kind"`
		State      *string            `json:"state"`
		RunID      *string            `json:"run_id"`
		Timestamp  *string            `json:"timestamp"`
		Hashes     map[string]*string `json:"hashes"`
		Labels     map[string]string  `json:"labels"`
		Mismatches []string           `json:"mismatches"`
		Links      struct {
			Record, Receipt  string
			Content, Queries map[string]string
		} `json:"links"`
		Event     json.RawMessage `json:"event"`
		Inclusion *struct {
			LeafIndex uint64 `json:"leaf_index"`
			TreeSize  uint64 `json:"tree_size"`
		} `json:"inclusion"`
	} `json:"rows"`
	Next       string `json:"next"`
	Checkpoint string `json:"checkpoint"`
}

func (s *server) records(t *testing.T, k call) recordList {
	t.Helper()
	var list recordList
	s.do(t, k, http.StatusOK).decode(t, &list)
	return list
}

func (l recordList) seqs() string {
	var seqs []string
	for _, row := range l.Rows {
		seqs = append(seqs, fmt.Sprint(row.Seq))
	}
	return strings.Join(seqs, " ")
}

// recorded returns a server with records of all kinds. Events 6 and 7 change the states of records
// 1 and 2.
func recorded(t *testing.T) *server {
	s := newServer(t)
	for _, name := range []string{"complete", "inputs", "answer", "chapter", "mismatch"} {
		s.do(t, s.record(t, name), http.StatusCreated) // seqs 1 to 5
	}
	s.do(t, verb(http.MethodPost, stateOf, `{"state":"failed","reason":"r"}`, "seq", "1"), http.StatusCreated)
	s.do(t, verb(http.MethodPost, stateOf, `{"state":"stale","reason":"r"}`, "seq", "2"), http.StatusCreated)
	return s
}

func TestRecordsByWhatTheyHaveInCommon(t *testing.T) {
	s := recorded(t)
	all := s.records(t, get(recordsOf).asking("?after=7&events=true"))
	require.Equal(t, uint64(8), all.AsOf)
	require.Equal(t, "5 4 3 2 1", all.seqs())
	require.Empty(t, all.Next)
	require.NotEmpty(t, all.Rows[0].Mismatches)
	for _, row := range all.Rows {
		require.Contains(t, string(row.Event), fmt.Sprintf(`"seq":%d,`, row.Seq))
		require.Equal(t, fmt.Sprintf("/v1/ledgers/default/records/%d", row.Seq), row.Links.Record)
		require.Empty(t, row.Links.Queries)
	}
	for query, seqs := range map[string]string{
		"?kind=ipc_record":             "5 1",
		"?kind=path_fingerprint":       "4",
		"?state=failed":                "1",
		"?state=live":                  "5",
		"?state=any&kind=run_dag":      "2",
		"?state=failed&as_of=6":        "",
		"?state=live&as_of=6":          "5 2 1",
		"?as_of=3":                     "2 1",
		"?kind=ipc_record&state=stale": "",
		"?label:project=harrow-vale&label:step=dialogue": "1",
		"?label:project=nowhere":                         "",
		"?project=harrow-vale":                           "4",
		"?since=2200-01-01T00:00:00Z":                    "",
		"?until=2200-01-01T00:00:00%2B02:00":             "5 4 3 2 1",
		"?clock=occurred&until=1999-01-01T00:00:00Z":     "",
	} {
		list := s.records(t, get(recordsOf).asking(query))
		require.Equal(t, seqs, list.seqs(), query)
		for _, row := range list.Rows {
			require.Empty(t, row.Event)
		}
	}
}

// GET /records finds a record by each of its properties.
func TestEveryPropertyFindsItsRecord(t *testing.T) {
	s := recorded(t)
	s.do(t, post(ipc, `{"producer":{"id":"p","seq":7},"payload":{"seed":1},"output":"o","model":"m","temperature":0,"max_tokens":1,
		"timestamp":"1969-07-20T20:17:40Z"}`), http.StatusCreated) // seq 8
	asked := 0
	requireFound := func(seq uint64, name, value string) {
		list := s.records(t, get(recordsOf).asking("?"+url.QueryEscape(name)+"="+url.QueryEscape(value)))
		require.Contains(t, " "+list.seqs()+" ", fmt.Sprintf(" %d ", seq), "%s=%s", name, value)
		asked++
	}
	for _, row := range s.records(t, get(recordsOf).asking("?after=8&events=true")).Rows {
		for name, hash := range row.Hashes {
			if name == "seedless_input_hash" {
				name = "input"
			}
			if hash != nil {
				requireFound(row.Seq, name, *hash)
			}
		}
		for name, value := range row.Labels {
			requireFound(row.Seq, "label:"+name, value)
		}
		if row.RunID != nil {
			requireFound(row.Seq, "run_id", *row.RunID)
		}
		var event struct {
			Record struct {
				Model, Subject, Project string
				Nodes                   []struct{ Stage, Hash string }
				Citations               []struct {
					ChunkHash string `json:"chunk_hash"`
					SourceID  string `json:"source_id"`
				}
			}
		}
		require.NoError(t, json.Unmarshal(row.Event, &event))
		r := event.Record
		for name, value := range map[string]string{"model": r.Model, "subject": r.Subject, "project": r.Project} {
			if value != "" {
				requireFound(row.Seq, name, value)
			}
		}
		for _, node := range r.Nodes {
			requireFound(row.Seq, "stage:"+node.Stage, node.Hash)
		}
		for _, c := range r.Citations {
			requireFound(row.Seq, "chunk_hash", c.ChunkHash)
			requireFound(row.Seq, "source_id", c.SourceID)
		}
	}
	require.Greater(t, asked, 40)
	require.Equal(t, "8", s.records(t, get(recordsOf).asking("?producer=p")).seqs())
	require.Equal(t, "8", s.records(t, get(recordsOf).asking("?producer_seq=7&producer=p")).seqs())
	require.Empty(t, s.records(t, get(recordsOf).asking("?producer=p&producer_seq=8")).Rows)
	occurred := s.records(t, get(recordsOf).asking("?clock=occurred&until=1970-01-01T00:00:00Z"))
	require.Equal(t, "8", occurred.seqs())
	require.Equal(t, "1969-07-20T20:17:40Z", *occurred.Rows[0].Timestamp)
}

// The query flag=mismatch finds all records that have a wrong claim. The parameter mismatch accepts
// a field name from the rows, and finds the records with a wrong claim for that field.
func TestRecordsWhoseClaimsDoNotHold(t *testing.T) {
	s := recorded(t)
	zero := strings.Repeat("0", 64)
	for _, k := range []call{
		post(prefix+"/citation-sets", `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":1,"chunk_hash":"sha256:`+zero+`"},
			{"source_id":"x","text":"u","weight":1,"chunk_hash":"sha256:`+zero+`"}]}`), // seq 8
		post(prefix+"/run-dags", `{"dag":{"root":"`+zero+`","nodes":[{"stage":"mine","hash":"`+zero+`"},{"stage":"answer","hash":"`+zero+`"}]},
			"inputs":{"answer_text":"a","audit_mode":"STRICT","verifier_method":"v","n_quotes":0,"n_verified":0,"sources":[],
			"question_hash":"`+zero+`","conversation_hash":"`+zero+`","context_root":"`+zero+`"}}`), // seq 9
		post(ipc, `{"input_hash":"`+zero+`","output_hash":"`+zero+`","output":"o",`+goodIPC[1:]), // seq 10
	} {
		s.do(t, k, http.StatusCreated)
	}
	fields := make(map[string]string)
	for _, row := range s.records(t, get(recordsOf)).Rows {
		for _, field := range row.Mismatches {
			fields[field] += fmt.Sprint(" ", row.Seq)
		}
	}
	require.Equal(t, "10 9 8 5", s.records(t, get(recordsOf).asking("?flag=mismatch")).seqs())
	require.Equal(t, "5", s.records(t, get(recordsOf).asking("?flag=mismatch&as_of=8")).seqs())
	require.Equal(t, "10", s.records(t, get(recordsOf).asking("?mismatch=input_hash&kind=ipc_record&state=live")).seqs())
	require.Equal(t, "8", s.records(t, get(recordsOf).asking("?mismatch=chunk_hash&flag=mismatch")).seqs())
	for field, seqs := range fields {
		if field == "stage:mine" {
			field = "stage:other"
		}
		if !strings.Contains(field, "/") { // mismatch does not accept the field of a single citation
			require.Equal(t, seqs[1:], s.records(t, get(recordsOf).asking("?mismatch="+url.QueryEscape(field))).seqs(), field)
		}
	}
	require.Greater(t, len(fields), 4)
}

// All pages of a list reflect the same tree size, even if records are written in the meantime, and
// every row can be proved.
func TestPagesOfRecords(t *testing.T) {
	s := recorded(t)
	for _, clock := range []string{"recorded", "occurred"} {
		k := get(recordsOf)
		whole := s.records(t, k.asking("?after=7&clock="+clock))
		query, seqs := "?limit=1&proofs=true&clock="+clock, []string(nil)
		for page := 0; ; page++ {
			list := s.records(t, k.asking(query))
			require.LessOrEqual(t, len(list.Rows), 1)
			require.Equal(t, whole.AsOf, list.AsOf)
			require.NotEmpty(t, list.Checkpoint)
			for _, row := range list.Rows {
				require.Equal(t, row.Seq, row.Inclusion.LeafIndex)
				require.Equal(t, whole.AsOf, row.Inclusion.TreeSize)
				seqs = append(seqs, fmt.Sprint(row.Seq))
			}
			if list.Next == "" {
				break
			}
			require.Less(t, page, 100)
			query = "?limit=1&proofs=true&clock=" + clock + "&cursor=" + list.Next
			s.do(t, post(ipc, goodIPC), http.StatusCreated)
		}
		require.Equal(t, whole.seqs(), strings.Join(seqs, " "), clock)
	}
}

// GET /runs/{run_id} lists all records of the run, and every link in the response works.
func TestRuns(t *testing.T) {
	s := newServer(t)
	const runID = "a/b ü"
	bodies := map[string]string{
		ipc:                           `"payload":{"seed":1},"system_prompt":"p","output":"o","model":"m","temperature":0,"max_tokens":1`,
		prefix + "/run-dags":          `"question":"why?","dag":{"root":"` + strings.Repeat("0", 64) + `","nodes":[{"stage":"question","hash":"` + strings.Repeat("0", 64) + `"}]}`,
		prefix + "/citation-sets":     `"subject":"s&t","citations":[{"source_id":"x","text":"t","weight":1}]`,
		prefix + "/path-fingerprints": `"project":"p/q","route":["a"],"content":"c"`,
	}
	for route, body := range bodies {
		s.do(t, post(route, fmt.Sprintf(`{"run_id":%q,%s}`, runID, body)), http.StatusCreated)
		s.do(t, post(route, fmt.Sprintf(`{"run_id":"another",%s}`, body)), http.StatusCreated)
	}
	run := s.records(t, get(runOf, "run_id", url.PathEscape(runID)).asking("?after=8"))
	require.Equal(t, "7 5 3 1", run.seqs())
	followed := 0
	follow := func(links ...string) {
		for _, link := range links {
			response, err := s.client.Get(s.url + link)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, link)
			followed++
		}
	}
	for _, row := range run.Rows {
		require.Equal(t, runID, *row.RunID)
		follow(row.Links.Record, row.Links.Receipt)
		require.NotEmpty(t, row.Links.Content)
		for _, link := range row.Links.Content {
			follow(link)
		}
		require.NotEmpty(t, row.Links.Queries)
		for _, link := range row.Links.Queries {
			follow(link)
		}
	}
	require.GreaterOrEqual(t, followed, 20)
	require.Equal(t, 2, len(s.records(t, get(runOf, "run_id", "another").asking("?state=live")).Rows))
	require.Empty(t, s.records(t, get(runOf, "run_id", "nobody")).Rows)
}

func TestRecordAsOf(t *testing.T) {
	s := recorded(t)
	s.do(t, get(recordOf, "seq", "1").asking("?after=7"), http.StatusOK) // waits until the index contains all events
	for query, state := range map[string]string{"": "failed", "?as_of=6": "live", "?as_of=7&proofs=true": "failed", "?after=7": "failed"} {
		var r struct {
			State string `json:"state"`
		}
		s.do(t, get(recordOf, "seq", "1").asking(query), http.StatusOK).decode(t, &r)
		require.Equal(t, state, r.State, query)
	}
	s.do(t, get(recordOf, "seq", "3").asking("?as_of=3"), http.StatusNotFound)
	s.do(t, get(recordOf, "seq", "8"), http.StatusNotFound)
}

// An invalid list query is refused with an error that names the wrong parameter.
func TestRefusedLists(t *testing.T) {
	s := recorded(t)
	for query, name := range map[string]string{
		"?kind=poem": "kind", "?state=mellow": "state", "?clock=sun": "clock", "?since=yesterday": "since",
		"?until=2026-01-01T00:00:00+02:00": "until", "?events=1": "events", "?record_seq=18446744073709551616": "record_seq", "?producer_seq=3": "producer_seq",
		"?producer=p&producer_seq=-1": "producer_seq", "?ipc_id=ABC": "ipc_id", "?path_id=1": "path_id",
		"?chunk_hash=" + strings.Repeat("0", 65): "chunk_hash", "?content_fingerprint=x": "content_fingerprint",
		"?flag=red": "flag", "?mismatch=output": "mismatch", "?mismatch=stage:mine": "mismatch",
		"?nonsense=1": "nonsense", "?stage:prompt=x": "stage:prompt", "?cursor=AA": "cursor", "?cursor=CAAA": "cursor",
		"?clock=occurred&cursor=CAAA": "cursor", "?limit=0": "limit", "?as_of=9": "as_of", "?model=a&model=b": "model",
		"?label:a=&label:b=&label:c=&label:d=&label:e=&label:f=&label:g=&model=m&run_id=r": "",
	} {
		var p struct {
			Errors []struct{ Pointer string }
		}
		s.send(t, get(recordsOf).asking(query), http.StatusBadRequest).decode(t, &p)
		require.Len(t, p.Errors, 1, query)
		if name != "" {
			require.Equal(t, "/"+name, p.Errors[0].Pointer, query)
		}
	}
	s.send(t, get(runOf, "run_id", "r").asking("?kind=ipc_record"), http.StatusBadRequest)
	s.send(t, get(runOf, "run_id", "%FF"), http.StatusBadRequest)
}
