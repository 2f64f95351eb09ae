package api

import (
	"encoding/json"
	"fmt"
	"net/url"

	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// recordLinks are paths of this API.
type recordLinks struct {
	Record  string `json:"record"`
	Receipt string `json:"receipt,omitempty"`
	// Content is keyed by the name of the content. Queries about the record are keyed by what
	// they answer.
	Content map[string]string `json:"content,omitempty"`
	Queries map[string]string `json:"queries,omitempty"`
}

// linkedEvent is the part of an event that links are made from.
type linkedEvent struct {
	Record struct {
		Content map[string]struct{} `json:"content"`
		Hashes  map[string]*string  `json:"hashes"`
		Subject string              `json:"subject"`
		Project string              `json:"project"`
	} `json:"record"`
}

// follow adds the links to a record's receipt, content, and related queries. Erased content
// gets no link.
func (row *recordRow) follow(q *indexQuery, r *records.Record) error {
	var e linkedEvent
	l := &row.Links
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return fmt.Errorf("event %d: %w", r.Seq, err)
	}
	l.Receipt = l.Record + "/receipt"
	l.Content = make(map[string]string)
	if row.RedactedBy == nil {
		for name := range e.Record.Content {
			l.Content[name] = l.Record + "/content/" + name
		}
	}
	l.Queries = make(map[string]string)
	add := func(name, format string, value *string) {
		if value != nil {
			l.Queries[name] = "/v1/ledgers/" + q.ledger.Name() + fmt.Sprintf(format, *value)
		}
	}
	hashes, live := e.Record.Hashes, r.State == record.Live
	switch r.Kind {
	case record.IPCRecord:
		timeline, repetitions := "/drift/timeline?input_hash=%s", "/drift/groups/ipc_id/%s"
		if !live { // these queries omit such a record by default
			timeline, repetitions = timeline+"&state=any", repetitions+"?state=any"
		}
		add("timeline", timeline, hashes["input_hash"])
		add("repetitions", repetitions, hashes["ipc_id"])
	case record.RunDAG:
		add("divergence", "/run-dags/divergence?question_hash=%s", hashes["question_hash"])
		if live { // the cache serves live run-DAGs only
			add("by_cache_key", "/run-dags/by-cache-key/%s", hashes["cache_key"])
		}
	case record.CitationSet:
		seq, subject := decimal(r.Seq), url.QueryEscape(e.Record.Subject)
		add("document", "/citation-sets/%s/document", &seq)
		add("drift", "/citation-sets/drift?subject=%s", &subject)
	case record.PathFingerprint:
		// If two routes share a path_id, the later one has a longer id.
		change, err := paths.ChangeOf(q.ctx, q.view, r.Seq)
		if err != nil {
			return err
		}
		path := url.PathEscape(e.Record.Project) + "/" + change.PathID
		add("history", "/paths/%s", &path)
	}
	return nil
}
