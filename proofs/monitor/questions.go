package monitor

import (
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"colophon/internal/cli"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/groups"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

// Question is something that the server and the copy of the log are both asked.
type Question struct {
	Path   string // below the ledger
	Values url.Values
	Lists  []answerList
	Form   *answerForm
	// atHead: it is answered for the head alone, whatever size is asked for.
	atHead bool
	// whole: it lists all there is, and is asked both with a size and without.
	whole bool
	manner
}

// manner is how a question is asked. The answer does not depend on it.
type manner struct {
	AsOf  uint64     // size that is asked for; 0 asks for none, as most clients do
	Limit int        // rows of the first page; 0 does not say
	Extra url.Values // parameters beside
	pages int        // of each list that are compared at most; 0 is all
}

// answerForm is what an answer looks like.
type answerForm struct {
	// size is the parameter that asks for a size; empty where there is none.
	size string
	// says is the path of the member that says the size; nil where a header does, or
	// the text.
	says []string
	// Lines: it is NDJSON. text: it is a .tlog-proof.
	Lines, Text bool
	// Server: the path is below the server, and the answer has a row for each ledger.
	Server bool
	// settings are members that no log says.
	settings []string
	// accept is the media type that is asked for; empty is any.
	accept string
	// unproved: it takes no proofs, unwaiting: nor after.
	unproved, unwaiting bool
}

// Forms of answers.
var (
	OfIndex      = &answerForm{size: "as_of", says: []string{"as_of"}}
	OfDocument   = &answerForm{size: "as_of", unproved: true}
	ofStage      = &answerForm{size: "as_of", says: []string{"as_of"}, unproved: true}
	ofInclusion  = &answerForm{size: "tree_size", says: []string{"as_of"}, unproved: true, unwaiting: true}
	OfTwoSizes   = &answerForm{size: "second", says: []string{"as_of"}, unproved: true, unwaiting: true}
	ofReceipt    = &answerForm{size: "tree_size", says: []string{"inclusion", "tree_size"}, unproved: true, unwaiting: true}
	ofNested     = &answerForm{size: "tree_size", says: []string{"receipt", "inclusion", "tree_size"}, unproved: true, unwaiting: true}
	ofTlogProof  = &answerForm{size: "tree_size", Text: true, accept: "text/plain", unproved: true, unwaiting: true}
	ofEvents     = &answerForm{Lines: true, unproved: true, unwaiting: true}
	ofEvent      = &answerForm{unproved: true, unwaiting: true}
	ofStatistics = &answerForm{says: []string{"as_of"}, settings: []string{"tree_size"}, unproved: true, unwaiting: true}
	OfLedger     = &answerForm{says: []string{"tree_size"}, settings: ledgerSettings, unproved: true, unwaiting: true}
	OfLedgers    = &answerForm{says: []string{"tree_size"}, settings: ledgerSettings, Server: true, unproved: true, unwaiting: true}
)

// ledgerSettings are what a server says of a ledger and a copy of its log cannot know.
// Origin and verifier key are compared with those of the log.
var ledgerSettings = []string{"origin", "verifier_key", "created", "frozen", "on_mismatch", "log"}

// answerList is one or several arrays of an answer that go on together on its next
// page.
type answerList struct {
	Members      []string
	Next, cursor string // the member that leads on, and the parameter that takes it
}

// rowsOnly is the list that most answers have.
var rowsOnly = []answerList{{[]string{"rows"}, "next", "cursor"}}

// Asker makes the questions that a log gives rise to.
type Asker struct {
	values    *logValues
	pairs     int // of values whose effects are asked for, of each variable
	few       int // questions of each kind that are beside those of all values
	size      uint64
	content   bool       // content may be asked for
	mixtures  [][]string // parameters of /records, as some records have them
	questions []Question
}

// String is the path with its parameters, but for the manner.
func (q Question) String() string {
	path := q.Path
	switch {
	case q.Form == OfLedgers:
		path = "/v1/ledgers"
	case path == "":
		path = "/"
	}
	if len(q.Values) == 0 {
		return path
	}
	return path + "?" + q.Values.Encode()
}

// PagePlace is where in an answer a page begins, and what is asked of it.
type PagePlace struct {
	Size             uint64 // 0 asks for none
	Limit            int    // rows; 0 does not say
	cursor, position string // position is empty on the first page
}

// At is the path of a page. Only the first page says a size: the cursor goes on at it.
func (q Question) At(p PagePlace) string {
	values := url.Values{}
	maps.Copy(values, q.Values)
	maps.Copy(values, q.Extra)
	switch {
	case p.position != "":
		values.Set(p.cursor, p.position)
	case p.Size > 0 && q.Form.size != "":
		values.Set(q.Form.size, cli.Decimal(p.Size))
	}
	if p.Limit > 0 && q.Paged() {
		values.Set("limit", strconv.Itoa(p.Limit))
	}
	if len(values) == 0 {
		return q.Path
	}
	return q.Path + "?" + values.Encode()
}

// Paged reports whether an answer has pages.
func (q Question) Paged() bool { return len(q.Lists) > 0 && q.Path != failuresPath }

const failuresPath = "/run-dags/failures"

func (a *Asker) ask(path string, lists []answerList, parameters ...string) *Question {
	q := Question{Path: path, Values: url.Values{}, Lists: lists, Form: OfIndex}
	for i := 0; i < len(parameters); i += 2 {
		q.Values.Set(parameters[i], parameters[i+1])
	}
	a.questions = append(a.questions, q)
	return &a.questions[len(a.questions)-1]
}

// askFor is ask for an answer of another form.
func (a *Asker) askFor(form *answerForm, path string, parameters ...string) *Question {
	q := a.ask(path, nil, parameters...)
	q.Form = form
	return q
}

// askWhole is ask for a list of all there is.
func (a *Asker) askWhole(path string, parameters ...string) {
	a.ask(path, rowsOnly, parameters...).whole = true
}

// All are all questions about the log: what the server lists, counts, compares and proves
// (spec: Requests).
func (a *Asker) All() []Question {
	a.questions = nil
	a.records()
	a.mixed()
	a.single()
	a.groups()
	a.rankings()
	a.effects()
	a.runDAGs()
	a.citations()
	a.paths()
	a.producers()
	a.log()
	return a.questions
}

// records asks for lists of records: all, by kind, by state, and by every name that
// records are found by; and for single ones.
func (a *Asker) records() {
	a.askWhole("/records")
	a.askWhole("/records", "events", "true")
	a.askWhole("/records", "clock", "occurred")
	a.askWhole("/records", "flag", "unregistered_source")
	a.askWhole("/records", "flag", "mismatch")
	for _, kind := range append(slices.Clone(record.Kinds[:]), record.ContentRedacted) {
		a.askWhole("/records", "kind", string(kind))
		for i, seq := range a.values.of(seqsOf + string(kind)) {
			if i%2 == 0 {
				a.ask("/records/"+seq, nil, "derive", "true")
			} else {
				a.ask("/records/"+seq, nil)
			}
		}
	}
	for _, state := range record.States {
		a.askWhole("/records", "state", string(state))
	}
	for _, name := range a.values.names(findable("")) {
		for _, value := range a.values.of(findable(name)) {
			a.ask("/records", rowsOnly, name, value)
		}
	}
	for _, run := range a.values.of(findable("run_id")) {
		a.ask("/runs/"+url.PathEscape(run), rowsOnly)
	}
	for _, run := range a.some(findable("run_id")) {
		a.ask("/runs/"+url.PathEscape(run), rowsOnly, "state", "live")
	}
}

// some are a few values of a kind.
func (a *Asker) some(kind string) []string {
	values := a.values.of(kind)
	return values[:min(len(values), a.few)]
}

// someTimes gives spans of time that begin or end where events of a kind do.
func (a *Asker) someTimes(kind string, most int, each func(parameters ...string)) {
	times := a.some(kind)
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

// mixed asks for lists of records by several things at once, as people look for some.
func (a *Asker) mixed() {
	for _, parameters := range a.mixtures {
		a.ask("/records", rowsOnly, parameters...)
	}
	a.someTimes(timesOf, a.few/2, func(span ...string) { a.ask("/records", rowsOnly, span...) })
	a.someTimes(timesOf, a.few/4, func(span ...string) { a.ask("/records", rowsOnly, append(span, "kind", string(record.IPCRecord))...) })
	a.someTimes(occurrences, a.few/4, func(span ...string) { a.ask("/records", rowsOnly, append(span, "clock", "occurred")...) })
	for _, both := range a.some(numbersOf) {
		producer, number, _ := strings.Cut(both, "\x00")
		a.ask("/records", rowsOnly, "producer", producer, "producer_seq", number)
	}
}

// single asks for receipts and proofs of records, and for events.
func (a *Asker) single() {
	for _, kind := range append(slices.Clone(record.Kinds[:]), record.ContentRedacted) {
		seqs := a.some(seqsOf + string(kind))
		for i, seq := range seqs[:min(len(seqs), max(1, a.few/4))] {
			path := "/records/" + seq + "/receipt"
			a.askFor(ofReceipt, path)
			a.askFor(ofInclusion, "/proofs/inclusion", "seq", seq)
			a.askFor(OfTwoSizes, "/proofs/consistency", "first", seq)
			if i%2 == 0 {
				a.askFor(ofTlogProof, path)
			}
		}
	}
	for _, both := range a.some(stagesOf) {
		seq, stage, _ := strings.Cut(both, "\x00")
		a.askFor(ofStage, "/run-dags/"+seq+"/stage-proof/"+url.PathEscape(stage))
		a.askFor(ofNested, "/records/"+seq+"/proof", "stage", stage)
	}
	for _, both := range a.some(citationsOf) {
		seq, number, _ := strings.Cut(both, "\x00")
		a.askFor(ofNested, "/records/"+seq+"/proof", "citation", number)
	}
	for _, hash := range a.some(eventHashes) {
		a.askFor(ofEvent, "/events/"+hash)
	}
}

// log asks for the log as a list of events, and for what the server says of it as a
// whole.
func (a *Asker) log() {
	for _, at := range a.some(anySeq) {
		const most = 7
		if seq, err := strconv.ParseUint(at, 10, 64); err == nil && seq+most < a.size {
			a.askFor(ofEvents, "/events", "from", at, "limit", strconv.FormatUint(1+seq%most, 10))
		}
	}
	for range 2 {
		a.askFor(ofStatistics, "/stats").atHead = true
		a.askFor(OfLedger, "").atHead = true
	}
	a.askFor(OfLedgers, "/v1/ledgers").atHead = true
}

// groups asks for the groups of runs, each by everything that runs are grouped by, and
// for what is in them.
func (a *Asker) groups() {
	inGroup := []answerList{rowsOnly[0], {[]string{"outputs"}, "outputs_next", "outputs_cursor"}}
	for _, by := range a.dimensions() {
		for _, state := range [...]string{"live", "any"} {
			a.askWhole("/drift/groups", "by", by, "state", state)
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

// dimensions are the names that runs are grouped by.
func (a *Asker) dimensions() (names []string) {
	for _, name := range a.values.names(findable("")) {
		if groups.Grouped(name) {
			names = append(names, name)
		}
	}
	return names
}

// rankings asks for groups in each order, and for those that few pass for. Without a size
// a ranking answers them, with one the list of all groups does.
func (a *Asker) rankings() {
	ranked := func(parameters ...string) { a.ask("/drift/groups", rowsOnly, parameters...).atHead = true }
	dimensions := a.dimensions()
	for _, by := range dimensions[:min(len(dimensions), max(a.few, 5))] {
		for _, sort := range [...]string{"recent", "runs", "flips", "stability"} {
			ranked("by", by, "sort", sort)
			ranked("by", by, "sort", sort, "min_outputs", "2")
		}
		ranked("by", by, "sort", "flips", "min_runs", "3")
		for _, few := range [...]string{"min_runs", "min_outputs"} {
			ranked("by", by, few, "2")
			a.ask("/drift/groups", rowsOnly, "by", by, few, "2").AsOf = a.size
			a.ask("/drift/groups", rowsOnly, "by", by, few, "3", "state", "any")
		}
		a.someTimes(timesOf, 3, func(span ...string) {
			span = append(span, "by", by)
			ranked(span...)
			ranked(append(span, "sort", "recent", "min_runs", "1")...)
			a.ask("/drift/groups", rowsOnly, span...).AsOf = a.size
			a.ask("/drift/groups", rowsOnly, append(span, "state", "any")...)
		})
	}
}

// effects asks what came of changing each variable from one of its values to another.
func (a *Asker) effects() {
	for _, variable := range effects.Variables {
		values, asked := a.values.of(variableOf+variable), 0
		// Neighbours in the sample first, then those farther apart.
		for apart := 1; apart < len(values); apart++ {
			for i := apart; i < len(values); i++ {
				if asked >= a.pairs {
					break
				}
				asked++
				q := a.ask("/drift/effects", rowsOnly, "variable", variable, "a", values[i-apart], "b", values[i])
				if asked%4 == 0 {
					q.Values.Set("state", "any")
				}
			}
		}
	}
}

func (a *Asker) runDAGs() {
	for _, state := range [...]string{"live", "any"} {
		a.askWhole(failuresPath, "state", state)
		a.someTimes(timesOf, a.few/4, func(span ...string) { a.ask(failuresPath, rowsOnly, append(span, "state", state)...) })
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

func (a *Asker) citations() {
	if a.content {
		for _, seq := range a.values.of(seqsOf + string(record.CitationSet)) {
			a.askFor(OfDocument, "/citation-sets/"+seq+"/document")
		}
	}
	a.askWhole("/citation-sets/conflicts")
	a.askWhole("/sources")
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

func (a *Asker) paths() {
	a.askWhole("/paths")
	for i, project := range a.values.of(findable("project")) {
		path := "/paths/" + url.PathEscape(project)
		a.ask(path, rowsOnly)
		for _, category := range paths.Categories {
			if i < a.few || category == paths.Modified {
				a.ask(path, rowsOnly, "status", string(category))
			}
		}
		a.ask(path, rowsOnly, "validated", strconv.FormatBool(i%2 == 0))
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
	for _, both := range a.some(buildOf) {
		project, build, _ := strings.Cut(both, "\x00")
		a.ask("/paths/"+url.PathEscape(project), rowsOnly, "build", build)
	}
}

func (a *Asker) producers() {
	a.askWhole("/producers")
	for _, id := range a.values.of(findable("producer")) {
		a.ask("/producers/"+url.PathEscape(id), []answerList{{[]string{"gaps", "duplicates"}, "next", "cursor"}})
	}
}

// Bounds of how a question is asked.
const (
	mostRows = 1000 // of a page
	fewPages = 3    // of a list that is asked for a second time, or ranked
)

// AsClientsDo gives questions a manner each, and brings them into an order, by chance: a
// server is not to tell the auditor's from those of others. What is whole is asked with a
// size and without; one of the two to its end, the other for its first pages.
func AsClientsDo(questions []Question, size uint64, random *rand.Rand) []Question {
	var all []Question
	for _, q := range questions {
		switch {
		case q.whole:
			sized := q
			sized.AsOf = size
			if random.IntN(2) == 0 {
				q.pages = fewPages
			} else {
				sized.pages = fewPages
			}
			all = append(all, sized.inManner(size, random))
		case q.atHead:
			q.pages = fewPages
		case q.Form.size == "" || q.AsOf > 0 || random.IntN(2) == 0:
		case q.Form == OfIndex && random.IntN(5) == 0:
			q.AsOf = 1 + random.Uint64N(size)
		default:
			q.AsOf = size
		}
		all = append(all, q.inManner(size, random))
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// inManner is the question with parameters that its answer does not depend on.
func (q Question) inManner(size uint64, random *rand.Rand) Question {
	q.Extra = url.Values{}
	if random.IntN(10) == 0 && !q.Form.unproved && q.Path != failuresPath {
		q.Extra.Set("proofs", "true")
	}
	if random.IntN(8) == 0 && !q.Form.unwaiting && q.AsOf == 0 {
		q.Extra.Set("after", cli.Decimal(random.Uint64N(size)))
	}
	q.Limit = anyLimit(random.Uint64(), 3)
	return q
}

// anyLimit is a limit that a client may give. Out of eight times one asks for a few rows,
// as many as byDefault for none in particular, and the others for as many as may be: fewer would make
// many requests of a long list.
func anyLimit(chance uint64, byDefault uint64) int {
	switch at := chance % 8; {
	case at == 0:
		return 1 + int(chance>>8%200)
	case at <= byDefault:
		return 0
	}
	return mostRows
}
