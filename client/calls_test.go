package client_test

import (
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"colophon"
	"colophon/client"
	"colophon/client/wire"
	"colophon/proofs"
)

const zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

// world is a ledger that holds enough records for every query to return rows.
type world struct {
	*client.Ledger
	t    *testing.T
	at   map[string]uint64
	path string // path_id of a posted path
	dag  string // cache key of a posted run-DAG
	q    string // question_hash of the run-DAG whose cache key is in dag
}

func (w *world) post(name string, record wire.Record) *wire.Receipt {
	w.t.Helper()
	receipt, err := w.Records.Post(w.t.Context(), record, nil)
	require.NoError(w.t, err, name)
	w.at[name] = receipt.Seq
	return receipt
}

func newWorld(t *testing.T, l *client.Ledger) *world {
	ctx := t.Context()
	w := &world{Ledger: l, t: t, at: make(map[string]uint64)}
	first := generation("Ana.")
	first.RunID, first.Usage = "run/1", json.RawMessage(`{"tokens": 7}`)
	first.Labels, first.Producer = map[string]string{"step": "one"}, &wire.Producer{ID: "web-7", Seq: 1}
	first.Environment = &wire.Environment{HostPlatform: new("linux"), ModelDigest: new("d1")}
	first.Timestamp = "2026-01-02T03:04:05+01:00"
	w.post("first", first)
	second := generation("Ana Varga.")
	second.Model, second.Producer, second.Labels = "m2", &wire.Producer{ID: "web-7", Seq: 4}, first.Labels
	w.post("second", second)
	third := generation("Ana.")
	third.OutputHash, third.Producer = zeroHash, &wire.Producer{ID: "web-7", Seq: 4}
	w.post("third", third)
	w.post("secret", generation("A secret."))

	run := func(name, answer, context string) *wire.RunDAG {
		return &wire.RunDAG{
			CommonRecordMembers: wire.CommonRecordMembers{RunID: name}, Question: new("Who keeps the light?"), Messages: json.RawMessage(`[{"role":"user","content":"x"}]`),
			Inputs: &wire.RunInputs{ContextRoot: context, AnswerText: new(answer), AuditMode: "HYBRID", VerifierMethod: "v", NQuotes: wire.IntNumber(1),
				NVerified: wire.IntNumber(1), Sources: []wire.RunSource{{Score: json.RawMessage(`0.5`)}}},
			CacheDimensions: &wire.CacheDimensions{SourceRoot: zeroHash, QuestionHash: zeroHash, ModelProfileHash: zeroHash, ConversationHash: zeroHash,
				GovernancePolicyHash: zeroHash, SchemaVersion: "1", CanonicalizationVersion: "1", ChunkingVersion: "1"},
		}
	}
	dag := w.post("dag", run("dag", "Ana.", zeroHash))
	w.dag, w.q = dag.Hashes.Get("cache_key"), dag.Hashes.Get("question_hash")
	w.post("dag2", run("dag2", "Ana \xed\xa0\x80.", strings.Repeat("1", 64))) // the answer text contains a lone surrogate

	set := func(source string) *wire.CitationSet {
		return &wire.CitationSet{Subject: "s", Citations: []wire.Citation{{SourceID: source, Text: new("Ana  Varga."), Weight: 1, Section: new("a")},
			{SourceID: "y", ChunkHash: "sha256:" + zeroHash, Weight: 0.5}}}
	}
	w.post("set", set("x"))
	for _, chunks := range [][]string{{"sha256:" + zeroHash}, {"sha256:" + strings.Repeat("1", 64)}} {
		_, err := l.Sources.Register(ctx, "y", wire.SourceRegistration{ChunkHashes: chunks, Title: new("Y")}, nil)
		require.NoError(t, err)
	}
	w.post("set2", set("z"))

	for _, p := range []wire.PathFingerprint{
		{Project: "p", Build: new("1"), Route: []string{"Start", "Day 18555"}, Content: new("The [[quay]].")},
		{Project: "p", Build: new("1"), Route: []string{"Start", "Day 42885"}},
		{Project: "p", Build: new("2"), Route: []string{"Start", "Day 18555"}, Content: new("The quay.")},
	} {
		receipt := w.post("path", &p)
		if w.path == "" {
			w.path = receipt.Hashes.Get("path_id")
		}
	}
	_, err := l.Records.SetState(ctx, w.at["secret"], wire.StateChange{State: wire.StateStale, Reason: "r"}, nil)
	require.NoError(t, err)
	_, err = l.Records.Post(ctx, func() wire.Record { r := generation("Another."); r.RunID = "run/1"; return r }(), nil)
	require.ErrorIs(t, err, client.ErrConflict)
	return w
}

// first reads the first page of list. It returns nil and the error if that fails.
func first[T any](t *testing.T, list *client.PagedList[T]) (any, error) {
	page, err := list.ReadPage(t.Context(), "")
	if err != nil {
		return nil, err
	}
	return page, nil
}

// requireRows requires that all yields at least one row and no error. Failure messages contain what,
// which names the iterator.
func requireRows[T any](t *testing.T, what string, all iter.Seq2[*T, error]) {
	t.Helper()
	n := 0
	for row, err := range all {
		require.NoError(t, err, what)
		require.NotNil(t, row)
		n++
	}
	require.NotZero(t, n, what)
}

// The client has a method for every operation of the OpenAPI contract, except those for browsers
// and OpenTelemetry exporters. It can send every parameter of these operations. Decoding a real
// server's responses into the types of package wire drops no members.
func TestEveryCall(t *testing.T) {
	s := serve(t)
	seen := &recorder{query: make(map[string]bool)}
	c := connect(t, s.URL, client.WithHTTPClient(&http.Client{Transport: seen}), client.WithVerifierKeys("default", s.key()))
	l := c.Ledger("default")
	ctx := t.Context()
	w := newWorld(t, l)
	all := &client.QueryOptions{AfterSeq: w.at["path"], IncludeProofs: true, Limit: 50}
	state := &client.StateOptions{QueryOptions: *all, IncludeAllStates: true}
	seeded := &client.RunQueryOptions{StateOptions: *state, SeededOnly: true}
	point := &client.QueryOptions{AfterSeq: w.at["path"], IncludeProofs: true}
	bare := &client.QueryOptions{AfterSeq: w.at["path"]}

	// call marks an operation as called. Unless value is nil, it also checks that decoding the
	// response into value dropped no members.
	called := make(map[string]bool)
	call := func(operation string, value any, err error) {
		t.Helper()
		require.NoError(t, err, operation)
		called[operation] = true
		switch value := value.(type) {
		case nil:
		case []byte:
			require.Equal(t, string(seen.body), string(value), operation)
		case string:
			require.Equal(t, string(seen.body), value, operation)
		default:
			lossless(t, seen.body, value)
		}
	}
	do := func(operation string) func(any, error) {
		return func(value any, err error) { t.Helper(); call(operation, value, err) }
	}

	for kind, operation := range map[wire.Kind]string{wire.KindIPCRecord: "postIPCRecord", wire.KindRunDAG: "postRunDAG",
		wire.KindCitationSet: "postCitationSet", wire.KindPathFingerprint: "postPathFingerprint"} {
		record := map[wire.Kind]wire.Record{
			wire.KindIPCRecord: generation("Ana!"), wire.KindRunDAG: &wire.RunDAG{Question: new("Q?"), RejectedInputs: &wire.RejectedRunInputs{RejectionReason: "r",
				PreflightPayload: &wire.PreflightPayload{Classifier: json.RawMessage(`{"a": 1}`)}}},
			wire.KindCitationSet:     &wire.CitationSet{Subject: "s", Citations: []wire.Citation{{SourceID: "x", Text: new("Ana  Varga."), Weight: 1}}},
			wire.KindPathFingerprint: &wire.PathFingerprint{Project: "p", Build: new("2"), Route: []string{"End"}, Content: new("The end.")},
		}[kind]
		receipt, err := l.Records.Post(ctx, record, &client.PostOptions{IdempotencyKey: string(kind), OnMismatch: "accept", IncludeDerivedMembers: true})
		call(operation, receipt, err)
		again, err := l.Records.Post(ctx, record, &client.PostOptions{IdempotencyKey: string(kind), OnMismatch: "accept", IncludeDerivedMembers: true})
		call(operation, again, err)
		require.True(t, again.Replayed)
		require.Equal(t, receipt.Seq, again.Seq)
		computed, err := c.Server.ComputeHashes(ctx, record)
		call("compute", computed, err)
	}
	{
		key, err := c.Server.CacheKey(ctx, wire.CacheDimensions{SourceRoot: zeroHash, QuestionHash: zeroHash, ModelProfileHash: zeroHash, ConversationHash: zeroHash,
			GovernancePolicyHash: zeroHash, SchemaVersion: "1", CanonicalizationVersion: "1", ChunkingVersion: "1"})
		call("computeCacheKey", key, err)
		question, err := c.Server.QuestionHash(ctx, wire.QuestionHashRequest{Question: "Who?"})
		call("computeQuestionHash", question, err)
	}
	receipt, err := l.Records.SetState(ctx, w.at["secret"], wire.StateChange{State: wire.StateLive, Reason: "r"}, &client.ChangeOptions{IdempotencyKey: "k"})
	call("postState", receipt, err)
	receipt, err = l.Records.AddNote(ctx, w.at["secret"], wire.Note{Topic: "review", Text: new("Good."), ActionOrigin: wire.ActionOrigin{OriginalActor: "ana", Timestamp: "2025-11-30T12:00:00Z"}}, nil)
	call("postNote", receipt, err)
	states := wire.StateChangeRequest{StateChange: wire.StateChange{State: wire.StateStale, Reason: "r"}, Seqs: []uint64{w.at["secret"]}}
	changes, err := l.Records.SetStates(ctx, states)
	call("postStateChanges", changes, err)
	states.State, states.Filter, states.Seqs, states.DryRun, states.AsOf = wire.StateLive, map[string]any{"run_id": "absent"}, nil, new(false), &changes.AsOf
	changes, err = l.Records.SetStates(ctx, states)
	call("postStateChanges", changes, err)
	receipt, err = l.Sources.Register(ctx, "a/../b", wire.SourceRegistration{}, nil)
	call("putSource", receipt, err)
	receipt, err = l.Sources.Revoke(ctx, "a/../b", wire.SourceRevocation{Reason: new("gone")}, nil)
	call("deleteSource", receipt, err)
	receipt, err = l.Paths.Validate(ctx, "p", w.path, wire.PathValidation{Validated: true, Reason: new("read")}, nil)
	call("putValidation", receipt, err)
	plan, err := l.Paths.ValidateMany(ctx, "p", wire.PathValidationsRequest{Validated: true, Build: "2", Reason: new("read")})
	call("postValidations", plan, err)
	require.NotEmpty(t, plan.Paths)
	listed := []wire.ExpectedPath{{PathID: plan.Paths[0].PathID, ContentFingerprint: plan.Paths[0].ContentFingerprint}, {PathID: "00000000"}}
	validated, err := l.Paths.ValidateMany(ctx, "p", wire.PathValidationsRequest{Validated: true, Build: "2", Paths: listed, DryRun: new(false), AsOf: &plan.AsOf})
	call("postValidations", validated, err)
	require.NotZero(t, validated.Paths[0].Seq)
	require.Equal(t, []wire.RefusedPath{{PathID: "00000000", Reason: wire.ReasonPathUnknown}}, validated.Refused)

	secret, err := l.PayloadMemberSecret(ctx)
	call("getMemberSecret", secret, err)
	part, err := l.IndexPart(ctx, client.IndexPartQuery{})
	call("getIndexPart", part, err)
	require.Empty(t, part.Next)
	again, err := l.IndexPart(ctx, client.IndexPartQuery{AsOf: part.AsOf, DigestOnly: true})
	call("getIndexPart", again, err)
	require.Equal(t, part.Digest, again.Digest)
	content, err := l.Records.Content(ctx, w.at["secret"], "output")
	call("getContent", content, err)
	require.Equal(t, "A secret.", string(content))
	receipt, err = l.Records.Redact(ctx, w.at["secret"], "Asked for.", nil)
	call("deleteContent", receipt, err)
	_, err = l.Records.Content(ctx, w.at["secret"], "output")
	require.ErrorIs(t, err, client.ErrGone)
	dry, err := l.Records.RedactMany(ctx, wire.RedactionRequest{Reason: "r", Filter: map[string]any{"run_id": "dag2"}})
	call("postRedactions", dry, err)
	require.True(t, dry.DryRun)
	done, err := l.Records.RedactMany(ctx, wire.RedactionRequest{Reason: "r", Seqs: []uint64{w.at["dag2"], w.at["secret"]}, DryRun: new(false), AsOf: &dry.AsOf})
	call("postRedactions", done, err)
	require.Len(t, done.Receipts, 1)

	last := receipt.Seq
	for _, o := range []*client.QueryOptions{all, point, bare, &state.QueryOptions} {
		o.AfterSeq = last
	}
	records := l.Records.List(&client.RecordFilter{QueryOptions: *all, Clock: "recorded", State: "", IncludeEvents: true})
	do("listRecords")(first(t, records))
	do("listRecords")(first(t, l.Records.List(&client.RecordFilter{QueryOptions: *all, Kind: wire.KindIPCRecord, State: wire.StateLive, Where: map[string]string{"run_id": "run/1"}})))
	do("listRun")(first(t, l.Records.ListByRun("run/1", &client.ListByRunOptions{QueryOptions: *all, State: wire.StateLive})))
	for name, seq := range w.at {
		row, err := l.Records.Get(ctx, seq, &client.GetRecordOptions{QueryOptions: *point, IncludeDerivedMembers: true})
		call("getRecord", row, err)
		event, err := wire.ParseEvent(row.Event)
		require.NoError(t, err, name)
		lossless(t, row.Event, event)
		line, err := l.Events.Get(ctx, row.EventHash)
		call("getEvent", line, err)
		receipt, err := l.Records.Receipt(ctx, seq, w.at["path"]+1)
		call("getReceipt", receipt, err)
	}
	proof, err := l.Records.TlogProof(ctx, w.at["first"], 0)
	call("getReceipt", proof, err)
	nested, err := l.Records.StageProof(ctx, w.at["dag"], "answer", w.at["path"]+1)
	call("getNestedProof", nested, err)
	_, err = proofs.ParseNestedProof(seen.body)
	require.NoError(t, err)
	nested, err = l.Records.CitationProof(ctx, w.at["set"], 0, 0)
	call("getNestedProof", nested, err)

	do("listGroups")(first(t, l.Drift.ListGroups("model", &client.RunGroupFilter{StateOptions: *state, MinRuns: 1, MinOutputs: 1})))
	do("listGroups")(first(t, l.Drift.ListGroups("model", &client.RunGroupFilter{Sort: "runs", Since: time.Unix(0, 1), Until: time.Now().Add(time.Hour)})))
	do("listValues")(first(t, l.Drift.FieldValues("label", all)))
	hits, err := l.Search(ctx, "m1", point)
	call("search", hits, err)
	require.NotEmpty(t, hits.Rows)
	rates, err := l.Rates(ctx, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), time.Minute, bare)
	call("listRates", rates, err)
	group := l.Drift.Group("label:step", "one", seeded)
	one, err := group.Get(ctx)
	call("getGroup", one, err)
	attribution, err := l.Drift.ChangeAttribution(ctx, w.at["first"], w.at["second"], point)
	call("attributeChange", attribution, err)
	require.Equal(t, wire.DriftCause("model"), attribution.Cause)
	attribution, err = l.Drift.ChangeAttribution(ctx, w.at["first"], w.at["third"], &client.QueryOptions{AsOf: last})
	call("attributeChange", attribution, err)
	do("listTimeline")(first(t, l.Drift.Timeline("label:step", "one", seeded)))
	effects := l.Drift.Effects("model", "m1", "m2", seeded)
	changed, err := effects.Get(ctx)
	call("listEffects", changed, err)
	few, err := effects.GetWithPartialCount(ctx)
	call("listEffects", few, err)
	require.Equal(t, changed, few, "GetFirst must return all pairs if there are fewer than 1,000")
	texts := &client.RunQueryOptions{StateOptions: client.StateOptions{QueryOptions: client.QueryOptions{IncludeTextFigures: true, IncludeNames: true}}}
	attribution, err = l.Drift.ChangeAttribution(ctx, w.at["first"], w.at["second"], &texts.StateOptions.QueryOptions)
	call("attributeChange", attribution, err)
	require.Equal(t, uint64(2), attribution.Text.Output.B.Words)
	do("listTimeline")(first(t, l.Drift.Timeline("label:step", "one", texts)))
	changed, err = l.Drift.Effects("model", "m1", "m2", texts).Get(ctx)
	call("listEffects", changed, err)
	require.Equal(t, uint64(1), changed.Text.Pairs)
	diff, err := l.Drift.Diff(ctx, w.at["first"], w.at["second"], "output")
	call("diffTexts", diff, err)
	rerun, err := l.Drift.CompareRerun(ctx, wire.Rerun{Seq: w.at["first"], Output: new("Anna."), Environment: &wire.Environment{ModelDigest: new("d2")}}, point)
	call("reproduce", rerun, err)

	comparison, err := l.RunDAGs.Compare(ctx, w.at["dag"], w.at["dag2"], point)
	call("compareRunDAGs", comparison, err)
	runs, err := l.Records.CompareRuns(ctx, "run/1", "dag", &client.StateOptions{QueryOptions: *point, IncludeAllStates: true})
	call("compareRuns", runs, err)
	do("listDivergence")(first(t, l.RunDAGs.ListDivergences(w.q, state)))
	do("listRunGroups")(first(t, l.RunDAGs.ListGroups("question_hash", &client.RunDAGGroupFilter{StateOptions: *state, MinRuns: 1})))
	cached, err := l.RunDAGs.FindByCacheKey(ctx, w.dag, point)
	call("getByCacheKey", cached, err)
	do("listRunDAGs")(first(t, l.RunDAGs.List(&client.RunDAGFilter{StateOptions: *state, Where: map[string]string{"verifier_method": "v"}})))
	dimensions, err := json.Marshal(cached.CacheDimensions)
	require.NoError(t, err)
	found, err := l.RunDAGs.Lookup(ctx, wire.LookupRequest{Question: "who keeps  the light", CacheDimensions: dimensions}, point)
	call("lookUpRunDAG", found, err)
	require.Equal(t, "equivalence_class", found.QuestionMode)
	stage, err := l.RunDAGs.StageProof(ctx, w.at["dag"], "answer", bare)
	call("getStageProof", stage, err)
	require.NoError(t, l.VerifyReceipt(&stage.Receipt))
	failures, err := l.RunDAGs.FailureCounts(ctx, &client.FailuresOptions{StateOptions: client.StateOptions{QueryOptions: *bare, IncludeAllStates: true}})
	call("countFailures", failures, err)
	require.Empty(t, failures.Periods)
	failures, err = l.RunDAGs.FailureCounts(ctx, &client.FailuresOptions{IncludePeriods: true, Step: 24 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, uint64(86400), failures.Step)
	require.NotEmpty(t, failures.Periods)

	do("listCitationDrift")(first(t, l.Citations.Drift("s", all)))
	do("listConflicts")(first(t, l.Citations.Conflicts(all)))
	do("listStale")(first(t, l.Citations.StaleSets("y", all)))
	_, err = first(t, l.Citations.StaleSets("", all))
	require.NoError(t, err)
	do("listByChunk")(first(t, l.Citations.ListByChunk("sha256:"+zeroHash, all)))
	do("listBySource")(first(t, l.Citations.ListBySource("y", all)))
	document, err := l.Citations.Document(ctx, w.at["set"], bare)
	call("getCitationsDocument", document, err)
	pinned, err := l.Citations.PinnedRetrieval(ctx, w.at["set"], wire.RetrievalRequest{TopK: new(uint64(3)),
		Sources: []wire.RetrievalSource{{ID: new("x"), Chunks: []wire.RetrievalChunk{{Text: new("Ana  Varga.")}, {}}}}}, point)
	call("pinnedRetrieval", pinned, err)
	do("listSources")(first(t, l.Sources.List(all)))
	source, err := l.Sources.Get(ctx, "y", point)
	call("getSource", source, err)
	source, err = l.Sources.Get(ctx, "a/../b", point)
	call("getSource", source, err)

	do("listProjects")(first(t, l.Paths.Projects(all)))
	do("listPaths")(first(t, l.Paths.List("p", &client.PathFilter{QueryOptions: *all})))
	do("listPaths")(first(t, l.Paths.List("p", &client.PathFilter{QueryOptions: *all, Status: "new", Validated: new(false), Build: "2"})))
	do("getPathHistory")(first(t, l.Paths.History("p", w.path, all)))
	do("listBuilds")(first(t, l.Paths.Builds("p", all)))
	do("listGonePaths")(first(t, l.Paths.GonePaths("p", "2", all)))
	do("compareBuilds")(first(t, l.Paths.CompareBuilds("p", "1", "2", "", all)))
	do("listPathCollisions")(first(t, l.Paths.Collisions("p", all)))
	do("listProducers")(first(t, l.Producers.List(all)))
	producer := l.Producers.Producer("web-7", all)
	gaps, err := producer.Get(ctx)
	call("getProducer", gaps, err)

	// Every list yields rows even if it is read in pages of one row.
	single := client.QueryOptions{Limit: 1}
	singleAny := &client.StateOptions{QueryOptions: single, IncludeAllStates: true}
	anyGeneration := &client.RunQueryOptions{StateOptions: *singleAny}
	requireRows(t, "records", l.Records.List(&client.RecordFilter{QueryOptions: single}).All(ctx))
	requireRows(t, "run", l.Records.ListByRun("run/1", nil).All(ctx))
	requireRows(t, "groups", l.Drift.ListGroups("model", &client.RunGroupFilter{StateOptions: *singleAny}).All(ctx))
	requireRows(t, "group's runs", l.Drift.Group("label:step", "one", anyGeneration).Runs(ctx))
	requireRows(t, "group's outputs", l.Drift.Group("label:step", "one", anyGeneration).Outputs(ctx))
	requireRows(t, "timeline", l.Drift.Timeline("model", "m1", anyGeneration).All(ctx))
	requireRows(t, "effects", l.Drift.Effects("model", "m1", "m2", anyGeneration).Pairs(ctx))
	requireRows(t, "divergence", l.RunDAGs.ListDivergences(w.q, singleAny).All(ctx))
	requireRows(t, "groups of run-DAGs", l.RunDAGs.ListGroups("question_hash", &client.RunDAGGroupFilter{StateOptions: *singleAny}).All(ctx))
	requireRows(t, "citation drift", l.Citations.Drift("s", &single).All(ctx))
	requireRows(t, "conflicts", l.Citations.Conflicts(&single).All(ctx))
	requireRows(t, "stale", l.Citations.StaleSets("y", &single).All(ctx))
	requireRows(t, "by chunk", l.Citations.ListByChunk("sha256:"+zeroHash, &single).All(ctx))
	requireRows(t, "by source", l.Citations.ListBySource("y", &single).All(ctx))
	requireRows(t, "sources", l.Sources.List(&single).All(ctx))
	requireRows(t, "projects", l.Paths.Projects(&single).All(ctx))
	requireRows(t, "paths", l.Paths.List("p", &client.PathFilter{QueryOptions: single}).All(ctx))
	requireRows(t, "history", l.Paths.History("p", w.path, &single).All(ctx))
	requireRows(t, "builds", l.Paths.Builds("p", &single).All(ctx))
	requireRows(t, "gone", l.Paths.GonePaths("p", "2", &single).All(ctx))
	requireRows(t, "comparison", l.Paths.CompareBuilds("p", "1", "2", "", &single).All(ctx))
	requireRows(t, "collisions", l.Paths.Collisions("p", &single).All(ctx))
	requireRows(t, "producers", l.Producers.List(&single).All(ctx))
	requireRows(t, "gaps", l.Producers.Producer("web-7", &single).Gaps(ctx))
	requireRows(t, "duplicates", l.Producers.Producer("web-7", &single).Duplicates(ctx))

	// Decoding an event's record drops no members, whatever the event's kind.
	kinds := make(map[wire.Kind]bool)
	var lines []string
	for line, err := range l.Events.All(ctx, 0) {
		require.NoError(t, err)
		text, err := json.Marshal(line)
		require.NoError(t, err)
		lines = append(lines, string(text))
		event, err := wire.ParseEvent(line.Event)
		require.NoError(t, err)
		record, err := event.Decode()
		require.NoError(t, err)
		lossless(t, event.Record, record)
		kinds[event.Kind] = true
	}
	for i, line := range strings.Split(strings.TrimSpace(string(seen.body)), "\n") {
		require.JSONEq(t, line, lines[i])
	}
	called["listEvents"] = true
	require.Len(t, kinds, 12, "the ledger must have events of all kinds except key_rotated")

	// Export yields the same rows as reading every page of the list.
	var rows []*wire.ListedRecord
	for row, err := range l.Records.List(&client.RecordFilter{QueryOptions: client.QueryOptions{AsOf: 9}}).All(ctx) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	var exported []*wire.ListedRecord
	export, err := l.Export(ctx, "/records", 9, func(text []byte) error {
		row := new(wire.ListedRecord)
		exported = append(exported, row)
		return json.Unmarshal(text, row)
	})
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	require.Equal(t, rows, exported)
	require.JSONEq(t, `{"as_of":9}`, string(export.AnswerWithoutRows))
	called["exportQuestion"] = true

	checkpoint, err := l.Log.Checkpoint(ctx)
	call("getCheckpoint", checkpoint, err)
	keys, err := l.Log.Keys(ctx)
	call("getKey", keys, err)
	verifier, err := proofs.ParseVerifier(s.key())
	require.NoError(t, err)
	head, err := proofs.OpenCheckpoint(checkpoint, verifier)
	require.NoError(t, err)
	entries, err := l.Log.Entries(ctx, 0, int(head.Size))
	call("getTile", nil, err)
	tile, err := l.Log.Tile(ctx, proofs.TilePath{Width: int(head.Size)})
	call("getTile", tile, err)
	leaf := proofs.LeafHash(entries[3])
	require.Equal(t, leaf[:], tile[3*32:4*32])
	inclusion, err := l.Log.InclusionProof(ctx, 3, head.Size)
	call("getInclusionProof", inclusion, err)
	consistency, err := l.Log.ConsistencyProof(ctx, 3, head.Size)
	call("getConsistencyProof", consistency, err)
	consistency, err = l.Log.ConsistencyProof(ctx, 3, 0)
	call("getConsistencyProof", consistency, err)

	ledgers, err := c.Ledgers.List(ctx)
	call("listLedgers", wire.LedgerList{Ledgers: ledgers}, err)
	other, err := c.Ledgers.Create(ctx, wire.CreateLedgerRequest{Name: "other", OnMismatch: "reject"})
	call("createLedger", other, err)
	notes := c.Ledger("other")
	description, err := notes.Describe(ctx)
	call("getLedger", description, err)
	description, err = notes.SetLogVisibility(ctx, "public")
	call("putVisibility", description, err)
	description, err = notes.SetUnregisteredSourcePolicy(ctx, "reject")
	call("putUnregistered", description, err)
	require.Equal(t, "reject", description.UnregisteredSources)
	description, err = notes.SetOTLPContentPolicy(ctx, "hashes")
	call("putOTLPContent", description, err)
	require.Equal(t, "hashes", description.OTLPContent)
	for _, step := range []string{"rotate", "retire"} {
		receipt, err := notes.AdvanceKeyRotation(ctx, step)
		call("changeKeys", receipt, err)
		event, err := wire.ParseEvent(receipt.Event)
		require.NoError(t, err)
		record, err := event.Decode()
		require.NoError(t, err)
		lossless(t, event.Record, record)
		keys, err := notes.Log.Keys(ctx)
		call("getKey", keys, err)
		var typed wire.KeyHistory
		require.NoError(t, json.Unmarshal(seen.body, &typed))
		lossless(t, seen.body, typed)
	}
	description, err = notes.Freeze(ctx)
	call("freezeLedger", description, err)
	_, err = notes.Records.Post(ctx, generation("x"), nil)
	require.ErrorIs(t, err, client.ErrFrozen)
	require.ErrorIs(t, err, client.ErrForbidden)
	live, err := l.LiveSummary(ctx)
	call("getLive", live, err)
	stats, err := l.Stats(ctx)
	call("getStats", stats, err)
	snapshot, err := c.Server.MakeSnapshot(ctx)
	call("makeSnapshot", snapshot, err)
	signIn, err := c.Server.SignInMethods(ctx)
	call("getSignIn", signIn, err)
	version, err := c.Server.Version(ctx)
	call("getVersion", version, err)
	for operation, f := range map[string]func() (string, error){
		"getHealth":    func() (string, error) { return c.Server.Health(ctx) },
		"getReadiness": func() (string, error) { return c.Server.Readiness(ctx) },
		"getMetrics":   func() (string, error) { return c.Server.Metrics(ctx) },
		"getContract":  func() (string, error) { return c.Server.OpenAPI(ctx) },
	} {
		text, err := f()
		call(operation, text, err)
	}
	called["postBatch"] = true // covered by batch_test.go

	contract, err := openapi3.NewLoader().LoadFromData(colophon.OpenAPI)
	require.NoError(t, err)
	notCalled := []string{"home", "getDocs", "getDocsFile", "getExample", "getConsoleFile", // operations for browsers
		"postTraces", "postLogs"} // operations for OpenTelemetry exporters
	for _, item := range contract.Paths.Map() {
		for _, operation := range item.Operations() {
			require.True(t, called[operation.OperationID] != slices.Contains(notCalled, operation.OperationID), operation.OperationID)
			for _, parameter := range operation.Parameters {
				name := strings.Replace(parameter.Value.Name, "{name}", "step", 1)
				free := operation.OperationID == "listRecords" || operation.OperationID == "listRunDAGs" || operation.OperationID == "listTimeline" // these methods accept arbitrary parameter names
				require.True(t, parameter.Value.In != "query" || free || seen.query[name], "%s: parameter %s", operation.OperationID, name)
			}
		}
	}
}
