package main

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/index"
	"colophon/ledger/record"
)

// question is something that the server and the copy of the log are both asked.
type question struct {
	path   string // below the ledger
	values url.Values
	lists  []answerList
}

// answerList is one or several arrays of an answer that go on together on its next
// page.
type answerList struct {
	members      []string
	next, cursor string // the member that leads on, and the parameter that takes it
}

// rowsOnly is the list that most answers have.
var rowsOnly = []answerList{{[]string{"rows"}, "next", "cursor"}}

// asker makes the questions that a log gives rise to.
type asker struct {
	values    *logValues
	pairs     int // of values whose effects are asked for, of each variable
	questions []question
}

// String is the path with its parameters, but for the size.
func (q question) String() string {
	if len(q.values) == 0 {
		return q.path
	}
	return q.path + "?" + q.values.Encode()
}

// at is the question as of a size; with a cursor, that has it. page is how many rows
// are wanted at once, 0 what the server thinks.
func (q question) at(size uint64, page int, cursor, position string) string {
	values := maps.Clone(q.values)
	if position != "" {
		values.Set(cursor, position)
	} else {
		values.Set("as_of", decimal(size))
	}
	if page > 0 && len(q.lists) > 0 && q.path != failuresPath { // that has no pages
		values.Set("limit", strconv.Itoa(page))
	}
	return q.path + "?" + values.Encode()
}

const failuresPath = "/run-dags/failures"

func (a *asker) ask(path string, lists []answerList, parameters ...string) {
	q := question{path: path, values: url.Values{}, lists: lists}
	for i := 0; i < len(parameters); i += 2 {
		q.values.Set(parameters[i], parameters[i+1])
	}
	a.questions = append(a.questions, q)
}

// questionsOf are all questions about the values: what the server lists, counts and
// compares (3.2, 4).
func questionsOf(values *logValues, pairs int) []question {
	a := &asker{values: values, pairs: pairs}
	a.records()
	a.groups()
	a.effects()
	a.runDAGs()
	a.citations()
	a.paths()
	a.producers()
	return a.questions
}

// records asks for lists of records: all, by kind, by state, and by every name that
// records are found by; and for single ones.
func (a *asker) records() {
	a.ask("/records", rowsOnly, "events", "true")
	a.ask("/records", rowsOnly, "clock", "occurred")
	a.ask("/records", rowsOnly, "flag", "unregistered_source")
	a.ask("/records", rowsOnly, "flag", "mismatch")
	for _, kind := range append(slices.Clone(record.Kinds[:]), record.ContentRedacted) {
		a.ask("/records", rowsOnly, "kind", string(kind))
		for _, seq := range a.values.of(seqsOf + string(kind)) {
			a.ask("/records/"+seq, nil, "derive", "true")
		}
	}
	for _, state := range record.States {
		a.ask("/records", rowsOnly, "state", string(state))
	}
	for _, name := range a.values.names(findable("")) {
		for _, value := range a.values.of(findable(name)) {
			a.ask("/records", rowsOnly, name, value)
		}
	}
	for _, run := range a.values.of(findable("run_id")) {
		a.ask("/runs/"+url.PathEscape(run), rowsOnly)
	}
}

// groups asks for the groups of runs, each by everything that runs are grouped by, and
// for what is in them.
func (a *asker) groups() {
	var dimensions []string
	for _, name := range a.values.names(findable("")) {
		if index.Grouped(name) {
			dimensions = append(dimensions, name)
		}
	}
	inGroup := []answerList{rowsOnly[0], {[]string{"outputs"}, "outputs_next", "outputs_cursor"}}
	for _, by := range dimensions {
		for _, state := range [...]string{"live", "any"} {
			a.ask("/drift/groups", rowsOnly, "by", by, "state", state)
			for _, value := range a.values.of(findable(by)) {
				a.ask("/drift/groups/"+url.PathEscape(by)+"/"+url.PathEscape(value), inGroup, "state", state)
				a.ask("/drift/timeline", rowsOnly, by, value, "state", state)
			}
		}
	}
	seqs := a.values.of(seqsOf + string(record.IPCRecord))
	for i := 1; i < len(seqs); i++ {
		a.ask("/drift/attribution", nil, "a", seqs[i-1], "b", seqs[i])
	}
}

// effects asks what came of changing each variable from one of its values to another.
func (a *asker) effects() {
	for _, variable := range index.EffectVariables {
		values, asked := a.values.of(variableOf+variable), 0
		// Neighbours in the sample first, then those farther apart.
		for apart := 1; apart < len(values); apart++ {
			for i := apart; i < len(values); i++ {
				if asked >= a.pairs {
					break
				}
				asked++
				a.ask("/drift/effects", rowsOnly, "variable", variable, "a", values[i-apart], "b", values[i])
			}
		}
	}
}

func (a *asker) runDAGs() {
	for _, state := range [...]string{"live", "any"} {
		a.ask(failuresPath, rowsOnly, "state", state)
		for _, hash := range a.values.of(findable("question_hash")) {
			a.ask("/run-dags/divergence", rowsOnly, "question_hash", hash, "state", state)
		}
	}
	for _, key := range a.values.of(findable("cache_key")) {
		a.ask("/run-dags/by-cache-key/"+key, nil)
	}
	seqs := a.values.of(seqsOf + string(record.RunDAG))
	for i := 1; i < len(seqs); i++ {
		a.ask("/run-dags/compare", nil, "a", seqs[i-1], "b", seqs[i])
	}
}

func (a *asker) citations() {
	a.ask("/citation-sets/conflicts", rowsOnly)
	a.ask("/citation-sets/stale", rowsOnly)
	a.ask("/sources", rowsOnly)
	for _, subject := range a.values.of(findable("subject")) {
		a.ask("/citation-sets/drift", rowsOnly, "subject", subject)
	}
	for _, hash := range a.values.of(findable("chunk_hash")) {
		a.ask("/citation-sets/by-chunk/"+url.PathEscape(hash), rowsOnly)
	}
	for _, source := range a.values.of(findable("source_id")) {
		a.ask("/citation-sets/by-source/"+url.PathEscape(source), rowsOnly)
		a.ask("/citation-sets/stale", rowsOnly, "source_id", source)
	}
	for _, source := range a.values.of(sourcesSeen) {
		a.ask("/sources/"+url.PathEscape(source), nil)
	}
}

func (a *asker) paths() {
	a.ask("/paths", rowsOnly)
	for _, project := range a.values.of(findable("project")) {
		path := "/paths/" + url.PathEscape(project)
		a.ask(path, rowsOnly)
		a.ask(path, rowsOnly, "status", string(index.Modified))
		a.ask(path, rowsOnly, "validated", "true")
		a.ask(path+"/builds", rowsOnly)
		a.ask(path+"/collisions", rowsOnly)
		for _, id := range a.values.of(findable("path_id")) {
			a.ask(path+"/"+id, rowsOnly)
		}
	}
	for _, both := range a.values.of(buildOf) {
		project, build, _ := strings.Cut(both, "\x00")
		a.ask("/paths/"+url.PathEscape(project)+"/builds/"+url.PathEscape(build)+"/gone", rowsOnly)
	}
}

func (a *asker) producers() {
	a.ask("/producers", rowsOnly)
	for _, id := range a.values.of(findable("producer")) {
		a.ask("/producers/"+url.PathEscape(id), []answerList{{[]string{"gaps", "duplicates"}, "next", "cursor"}})
	}
}
