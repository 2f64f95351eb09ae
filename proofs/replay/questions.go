package replay

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/rundags"
	"colophon/ledger/record"
	"colophon/proofs/replay/reference"
)

// question is a query that is sent to both the server and the reference.
type question struct {
	path   string // path below the ledger's URL
	values url.Values
	lists  []answerList
	form   *answerForm
	// atHead means that the answer is always as of the current head; its request cannot name a
	// size.
	atHead bool
	// listsAll means that the question asks for a complete list, such as all records. It is asked
	// both with and without a size.
	listsAll bool
	variation
}

// variation holds parameters that an audit can vary without changing what a question asks about.
type variation struct {
	asOf  uint64     // requested size; 0 means that the request names no size, as is usual for clients
	limit int        // number of rows requested for the first page; 0 means that the request sets no limit
	extra url.Values // additional query parameters
	pages int        // maximum number of pages of each list to compare; 0 means all pages
}

// answerForm describes answers of one kind.
type answerForm struct {
	// size is the name of the query parameter that requests a size, or empty if there is none.
	size string
	// sizeMember is the path of the member that contains the size, or nil if the size is in a
	// header or in the text.
	sizeMember []string
	// lines means that the answer is NDJSON. text means that it is a .tlog-proof file.
	lines, text bool
	// ofServer means that the path is relative to the server's URL instead of the ledger's, and
	// that the answer has a row for each ledger.
	ofServer bool
	// serverMembers lists the members that the log does not determine.
	serverMembers []string
	// accept is the media type to request, or empty to accept any.
	accept string
	// noProofs means that the query parameter proofs is not allowed. noAfter means that the query
	// parameter after is not allowed.
	noProofs, noAfter bool
}

// mediaType returns the media type of the answers.
func (f *answerForm) mediaType() string {
	switch {
	case f.lines:
		return "application/x-ndjson"
	case f.text:
		return f.accept
	}
	return "application/json"
}

// The forms of all answers that are compared.
var (
	indexForm       = &answerForm{size: "as_of", sizeMember: []string{"as_of"}}
	documentForm    = &answerForm{size: "as_of", noProofs: true}
	stageForm       = &answerForm{size: "as_of", sizeMember: []string{"as_of"}, noProofs: true}
	inclusionForm   = &answerForm{size: "tree_size", sizeMember: []string{"as_of"}, noProofs: true, noAfter: true}
	consistencyForm = &answerForm{size: "second", sizeMember: []string{"as_of"}, noProofs: true, noAfter: true}
	receiptForm     = &answerForm{size: "tree_size", sizeMember: []string{"inclusion", "tree_size"}, noProofs: true, noAfter: true}
	nestedForm      = &answerForm{size: "tree_size", sizeMember: []string{"receipt", "inclusion", "tree_size"}, noProofs: true, noAfter: true}
	tlogProofForm   = &answerForm{size: "tree_size", text: true, accept: "text/plain", noProofs: true, noAfter: true}
	eventsForm      = &answerForm{lines: true, noProofs: true, noAfter: true}
	eventForm       = &answerForm{noProofs: true, noAfter: true}
	statisticsForm  = &answerForm{sizeMember: []string{"as_of"}, serverMembers: []string{"tree_size"}, noProofs: true, noAfter: true}
	ledgerForm      = &answerForm{sizeMember: []string{"tree_size"}, serverMembers: ledgerMembers, noProofs: true, noAfter: true}
	ledgersForm     = &answerForm{sizeMember: []string{"tree_size"}, serverMembers: ledgerMembers, ofServer: true, noProofs: true, noAfter: true}
)

// ledgerMembers lists the members of a ledger's description that its log does not determine. The
// audit compares the origin and the verifier key with the values that it already knows.
var ledgerMembers = []string{"origin", "verifier_key", "created", "frozen", "on_mismatch", "log", "unregistered_sources", "otlp_content", "scopes"}

// answerList is one or more arrays in an answer that are paged together.
type answerList struct {
	members      []string
	next, cursor string // the member that contains the cursor, and the query parameter that accepts it
}

// rowsList describes the single list that most answers contain.
var rowsList = []answerList{{[]string{"rows"}, "next", "cursor"}}

// questionBuilder builds the questions for a log.
type questionBuilder struct {
	values       *logValues
	pairs        int // for each variable, the maximum number of pairs of values to ask about
	maxExtra     int // maximum number of additional questions of each kind
	size         uint64
	content      bool       // whether the token has the content scope
	combinations [][]string // combinations of query parameters for /records, each of which matches at least one record
	questions    []question
}

// String returns the path with its parameters, without the variation.
func (q question) String() string {
	path := q.path
	switch {
	case q.form == ledgersForm:
		path = "/v1/ledgers"
	case path == "":
		path = "/"
	}
	if len(q.values) == 0 {
		return path
	}
	return path + "?" + q.values.Encode()
}

// pageRequest describes a request for one page of an answer.
type pageRequest struct {
	size             uint64 // 0 means that the request names no size
	limit            int    // number of rows; 0 means that the request sets no limit
	cursor, position string // name and value of the cursor parameter; position is empty for the first page
}

// at returns the path and query of a request for a page. Only the request for the first page names
// a size; for later pages, the cursor implies it.
func (q question) at(p pageRequest) string {
	values := url.Values{}
	maps.Copy(values, q.values)
	maps.Copy(values, q.extra)
	switch {
	case p.position != "":
		values.Set(p.cursor, p.position)
	case p.size > 0 && q.form.size != "":
		values.Set(q.form.size, decimal(p.size))
	}
	if p.limit > 0 && q.paged() {
		values.Set("limit", strconv.Itoa(p.limit))
	}
	if len(values) == 0 {
		return q.path
	}
	return q.path + "?" + values.Encode()
}

// parameters returns the query part of the URL for a page.
func (q question) parameters(p pageRequest) string {
	_, parameters, _ := strings.Cut(q.at(p), "?")
	return parameters
}

// paged reports whether the answer is split into pages.
func (q question) paged() bool { return len(q.lists) > 0 && q.path != failuresPath }

const failuresPath = "/run-dags/failures"

func (b *questionBuilder) ask(path string, lists []answerList, parameters ...string) *question {
	q := question{path: path, values: url.Values{}, lists: lists, form: indexForm}
	for i := 0; i < len(parameters); i += 2 {
		q.values.Set(parameters[i], parameters[i+1])
	}
	b.questions = append(b.questions, q)
	return &b.questions[len(b.questions)-1]
}

// askFor is like ask, but for an answer of the given form that has no lists.
func (b *questionBuilder) askFor(form *answerForm, path string, parameters ...string) *question {
	q := b.ask(path, nil, parameters...)
	q.form = form
	return q
}

// askAll is like ask, but marks the question as asking for a complete list.
func (b *questionBuilder) askAll(path string, parameters ...string) {
	b.ask(path, rowsList, parameters...).listsAll = true
}

// all returns all questions about the log (docs/spec: Requests).
func (b *questionBuilder) all() []question {
	b.questions = nil
	b.records()
	b.combined()
	b.singleRecords()
	b.groups()
	b.rankings()
	b.effects()
	b.runDAGs()
	b.citations()
	b.paths()
	b.producers()
	b.log()
	return b.questions
}

// records adds questions about lists of records and about single records. It asks for all records,
// and for the records with each kind, state, and searchable value.
func (b *questionBuilder) records() {
	b.askAll("/records")
	b.askAll("/records", "events", "true")
	b.askAll("/records", "clock", "occurred")
	b.askAll("/records", "flag", "unregistered_source")
	b.askAll("/records", "flag", "other_base")
	b.askAll("/records", "flag", "mismatch")
	b.askAll("/records", "flag", "inconsistent")
	for _, kind := range append(slices.Clone(record.RecordKinds[:]), record.KindContentRedacted, record.KindNote) {
		b.askAll("/records", "kind", string(kind))
		for i, seq := range b.values.of(seqsOf + string(kind)) {
			if i%2 == 0 {
				b.ask("/records/"+seq, nil, "derive", "true")
			} else {
				b.ask("/records/"+seq, nil)
			}
		}
	}
	for _, state := range record.States {
		b.askAll("/records", "state", string(state))
	}
	for _, name := range b.values.names(findable("")) {
		for _, value := range b.values.of(findable(name)) {
			if name == "mismatch" { // like the flag filter, the mismatch filter returns a complete list
				b.askAll("/records", name, value)
			} else {
				b.ask("/records", rowsList, name, value)
			}
		}
	}
	for _, run := range b.values.of(findable("run_id")) {
		b.ask("/runs/"+wire.EscapeRunID(run), rowsList)
	}
	for _, run := range b.some(findable("run_id")) {
		b.ask("/runs/"+wire.EscapeRunID(run), rowsList, "state", "live")
	}
	runs := b.values.of(findable("run_id"))
	for i := 1; i < len(runs); i++ {
		q := b.ask("/runs/compare", nil, "a", runs[i-1], "b", runs[i])
		if i%4 == 0 {
			q.values.Set("state", "any")
		}
	}
}

// some returns at most b.maxExtra values of the given kind.
func (b *questionBuilder) some(kind string) []string {
	values := b.values.of(kind)
	return values[:min(len(values), b.maxExtra)]
}

// someTimes chooses up to most periods and calls the function each with the query parameters that
// select the period. Each period begins or ends at one of the sampled times of the given kind.
func (b *questionBuilder) someTimes(kind string, most int, each func(parameters ...string)) {
	times := b.some(kind)
	for i, at := range times[:min(len(times), most)] {
		switch other := times[(i+1)%len(times)]; i % 3 {
		case 0:
			each("since", at)
		case 1:
			each("until", at)
		default:
			each("since", min(at, other), "until", max(at, other))
		}
	}
}

// combined adds questions that filter records by several parameters at once, as people do when they
// search for records.
func (b *questionBuilder) combined() {
	for _, parameters := range b.combinations {
		b.ask("/records", rowsList, parameters...)
	}
	b.someTimes(timesOf, b.maxExtra/2, func(span ...string) { b.ask("/records", rowsList, span...) })
	b.someTimes(timesOf, b.maxExtra/4, func(span ...string) {
		b.ask("/records", rowsList, append(span, "kind", string(record.KindIPCRecord))...)
	})
	b.someTimes(occurrences, b.maxExtra/4, func(span ...string) { b.ask("/records", rowsList, append(span, "clock", "occurred")...) })
	for _, both := range b.some(numbersOf) {
		producer, number, _ := strings.Cut(both, "\x00")
		b.ask("/records", rowsList, "producer", producer, "producer_seq", number)
	}
}

// singleRecords adds questions about the receipts and proofs of single records, and about events.
func (b *questionBuilder) singleRecords() {
	for _, kind := range append(slices.Clone(record.RecordKinds[:]), record.KindContentRedacted, record.KindNote) {
		seqs := b.some(seqsOf + string(kind))
		for i, seq := range seqs[:min(len(seqs), max(1, b.maxExtra/4))] {
			path := "/records/" + seq + "/receipt"
			b.askFor(receiptForm, path)
			b.askFor(inclusionForm, "/proofs/inclusion", "seq", seq)
			b.askFor(consistencyForm, "/proofs/consistency", "first", seq)
			if i%2 == 0 {
				b.askFor(tlogProofForm, path)
			}
		}
	}
	for _, both := range b.some(stagesOf) {
		seq, stage, _ := strings.Cut(both, "\x00")
		b.askFor(stageForm, "/run-dags/"+seq+"/stage-proof/"+url.PathEscape(stage))
		b.askFor(nestedForm, "/records/"+seq+"/proof", "stage", stage)
	}
	for _, both := range b.some(citationsOf) {
		seq, number, _ := strings.Cut(both, "\x00")
		b.askFor(nestedForm, "/records/"+seq+"/proof", "citation", number)
	}
	for _, hash := range b.some(eventHashes) {
		b.askFor(eventForm, "/events/"+hash)
	}
}

// log adds questions about the log itself: its events, proofs, and description.
func (b *questionBuilder) log() {
	for _, at := range b.some(anySeq) {
		const most = 7
		if seq, err := strconv.ParseUint(at, 10, 64); err == nil && seq+most < b.size {
			b.askFor(eventsForm, "/events", "from", at, "limit", strconv.FormatUint(1+seq%most, 10))
		}
	}
	for range 2 {
		b.askFor(statisticsForm, "/stats").atHead = true
		b.askFor(ledgerForm, "").atHead = true
	}
	b.askFor(ledgersForm, "/v1/ledgers").atHead = true
}

// groups adds questions about the groups of runs for each dimension, and about the runs in each
// group.
func (b *questionBuilder) groups() {
	inGroup := []answerList{rowsList[0], {[]string{"outputs"}, "outputs_next", "outputs_cursor"}}
	for _, by := range b.dimensions() {
		for _, state := range [...]string{"live", "any"} {
			b.askAll("/drift/groups", "by", by, "state", state)
			for _, value := range b.values.of(findable(by)) {
				b.ask("/drift/groups/"+url.PathEscape(by)+"/"+url.PathEscape(value), inGroup, "state", state)
				b.ask("/drift/timeline", rowsList, by, value, "state", state)
			}
		}
		for _, value := range b.some(findable(by)) {
			b.ask("/drift/groups/"+url.PathEscape(by)+"/"+url.PathEscape(value), inGroup, "seeded", "true")
			b.ask("/drift/timeline", rowsList, by, value, "seeded", "true")
		}
	}
	seqs := b.values.of(seqsOf + string(record.KindIPCRecord))
	for i := 1; i < len(seqs); i++ {
		b.ask("/drift/attribution", nil, "a", seqs[i-1], "b", seqs[i])
	}
}

// dimensions returns the names of the values by which runs can be grouped.
func (b *questionBuilder) dimensions() (names []string) {
	for _, name := range b.values.names(findable("")) {
		if groups.IsValidGrouping(name) {
			names = append(names, name)
		}
	}
	return names
}

// rankings adds questions about groups in each order and with each filter. Without a size in the
// request, the answer is a ranking; with a size, it is the list of all groups.
func (b *questionBuilder) rankings() {
	ranked := func(parameters ...string) { b.ask("/drift/groups", rowsList, parameters...).atHead = true }
	dimensions := b.dimensions()
	for _, by := range dimensions[:min(len(dimensions), max(b.maxExtra, 5))] {
		for _, sort := range [...]string{"recent", "runs", "flips", "stability"} {
			ranked("by", by, "sort", sort)
			ranked("by", by, "sort", sort, "min_outputs", "2")
		}
		ranked("by", by, "sort", "flips", "min_runs", "3")
		for _, few := range [...]string{"min_runs", "min_outputs"} {
			ranked("by", by, few, "2")
			b.ask("/drift/groups", rowsList, "by", by, few, "2").asOf = b.size
			b.ask("/drift/groups", rowsList, "by", by, few, "3", "state", "any")
		}
		b.someTimes(timesOf, 3, func(span ...string) {
			span = append(span, "by", by)
			ranked(span...)
			ranked(append(span, "sort", "recent", "min_runs", "1")...)
			b.ask("/drift/groups", rowsList, span...).asOf = b.size
			b.ask("/drift/groups", rowsList, append(span, "state", "any")...)
		})
	}
}

// effects adds questions about the effect of changing each variable and each label from one of its
// values to another.
func (b *questionBuilder) effects() {
	for _, variable := range slices.Concat(effects.Variables[:], b.values.of(memberOf)) {
		b.effectsOf(variable, b.values.of(variableOf+variable), b.pairs)
	}
	for _, label := range b.labels() {
		b.effectsOf(label, b.some(findable(label)), b.maxExtra)
	}
}

// labels returns at most b.maxExtra labels that can be variables.
func (b *questionBuilder) labels() []string {
	labels := slices.DeleteFunc(b.dimensions(), func(name string) bool { return !strings.HasPrefix(name, "label:") })
	return labels[:min(len(labels), b.maxExtra)]
}

// effectsOf adds questions about the effect of changing a variable from one of the values to
// another, starting with neighbouring values. pairs is the maximum number of pairs of values to ask
// about.
func (b *questionBuilder) effectsOf(variable string, values []string, pairs int) {
	asked := 0
	for apart := 1; apart < len(values); apart++ {
		for i := apart; i < len(values); i++ {
			if asked >= pairs {
				return
			}
			asked++
			q := b.ask("/drift/effects", rowsList, "variable", variable, "a", values[i-apart], "b", values[i])
			if asked%4 == 0 {
				q.values.Set("state", "any")
			}
			if asked%3 == 0 {
				q.values.Set("seeded", "true")
			}
		}
	}
}

func (b *questionBuilder) runDAGs() {
	for _, state := range [...]string{"live", "any"} {
		b.askAll(failuresPath, "state", state)
		b.askAll("/run-dags", "state", state)
		b.someTimes(timesOf, b.maxExtra/4, func(span ...string) { b.ask(failuresPath, rowsList, append(span, "state", state)...) })
		for _, hash := range b.values.of(findable("question_hash")) {
			b.ask("/run-dags/divergence", rowsList, "question_hash", hash, "state", state)
		}
	}
	for _, name := range [...]string{"failure_stage", "audit_mode", "shape", "verifier_method", "document_root", "evidence_id", "inconsistent"} {
		for i, value := range b.some(findable(name)) {
			b.ask("/run-dags", rowsList, name, value)
			if i%2 == 0 {
				b.ask("/run-dags", rowsList, name, value, "state", "any")
			}
		}
	}
	for _, by := range rundags.GroupFields {
		b.runGroups(by)
	}
	for _, key := range b.values.of(findable("cache_key")) {
		b.ask("/run-dags/by-cache-key/"+key, nil)
	}
	seqs := b.values.of(seqsOf + string(record.KindRunDAG))
	for i := 1; i < len(seqs); i++ {
		b.ask("/run-dags/compare", nil, "a", seqs[i-1], "b", seqs[i])
	}
}

// runGroups adds questions about run-DAGs grouped by the given hash, and about the run-DAGs in some
// of the groups. If a request for the groups of a period names no size, the answer reflects the
// head.
func (b *questionBuilder) runGroups(by string) {
	const path = "/run-dags/groups"
	for _, state := range [...]string{"live", "any"} {
		b.askAll(path, "by", by, "state", state)
	}
	b.someTimes(timesOf, 3, func(span ...string) {
		span = append(span, "by", by)
		b.ask(path, rowsList, span...).atHead = true
		b.ask(path, rowsList, span...).asOf = b.size
		b.ask(path, rowsList, append(span, "state", "any")...)
	})
	for _, value := range b.some(findable(by)) {
		b.ask("/run-dags", rowsList, by, value)
	}
}

func (b *questionBuilder) citations() {
	if b.content {
		for _, seq := range b.values.of(seqsOf + string(record.KindCitationSet)) {
			b.askFor(documentForm, "/citation-sets/"+seq+"/document")
		}
	}
	b.askAll("/citation-sets/conflicts")
	b.askAll("/citation-sets/stale")
	b.askAll("/sources")
	for _, subject := range b.values.of(findable("subject")) {
		b.ask("/citation-sets/drift", rowsList, "subject", subject)
	}
	for _, hash := range b.values.of(findable("chunk_hash")) {
		b.ask("/citation-sets/by-chunk/"+url.PathEscape(hash), rowsList)
	}
	for _, source := range b.values.of(findable("source_id")) {
		b.ask("/citation-sets/by-source/"+url.PathEscape(source), rowsList)
		b.ask("/citation-sets/stale", rowsList, "source_id", source)
	}
	for _, source := range b.values.of(sourcesSeen) {
		b.ask("/sources/"+url.PathEscape(source), nil)
	}
}

func (b *questionBuilder) paths() {
	b.askAll("/paths")
	for i, project := range b.values.of(findable("project")) {
		path := "/paths/" + url.PathEscape(project)
		b.ask(path, rowsList)
		for _, category := range paths.Categories {
			if i < b.maxExtra || category == paths.CategoryModified {
				b.ask(path, rowsList, "status", string(category))
			}
		}
		b.ask(path, rowsList, "validated", strconv.FormatBool(i%2 == 0))
		b.ask(path+"/builds", rowsList)
		b.ask(path+"/collisions", rowsList)
		for _, id := range b.values.of(findable("path_id")) {
			b.ask(path+"/"+id, rowsList)
		}
	}
	for _, both := range b.values.of(buildOf) {
		project, build, _ := strings.Cut(both, "\x00")
		b.ask("/paths/"+url.PathEscape(project)+"/builds/"+url.PathEscape(build)+"/gone", rowsList)
	}
	builds := b.some(buildOf)
	for i, both := range builds {
		project, build, _ := strings.Cut(both, "\x00")
		b.ask("/paths/"+url.PathEscape(project), rowsList, "build", build)
		if other, before, _ := strings.Cut(builds[max(0, i-1)], "\x00"); other == project && before != "" && build != "" {
			b.ask("/paths/"+url.PathEscape(project)+"/compare", rowsList, "a", before, "b", build)
		}
	}
}

func (b *questionBuilder) producers() {
	b.askAll("/producers")
	for _, id := range b.values.of(findable("producer")) {
		b.ask("/producers/"+url.PathEscape(id), []answerList{{[]string{"gaps", "duplicates"}, "next", "cursor"}})
	}
}

// Limits on pages.
const (
	maxRows  = reference.MaxPageRows // maximum number of rows of a page
	fewPages = 3                     // maximum number of pages to read from a ranking, or from a list that another question reads completely
)
