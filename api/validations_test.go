package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// One request validates many paths, after a dry run that records nothing.
func TestManyPathsAreValidatedAtOnce(t *testing.T) {
	s := start(t)
	post := func(route, content string) string {
		return s.derived("/path-fingerprints", `{"project":"p","build":"b1","route":["`+route+`"],"content":"`+content+`"}`).PathID
	}
	a, b, c := post("a", "A."), post("b", "B."), post("c", "C.")
	validate := func(body string, status int) (done wire.PathValidationsResult) {
		s.post("/paths/p/validations", body).want(status).json(&done)
		return done
	}
	plan := validate(`{"validated":true,"build":"b1","reason":"read"}`, http.StatusOK)
	require.Equal(t, uint64(4), s.size(), "a dry run records nothing")
	require.True(t, plan.DryRun)
	require.Equal(t, uint64(4), plan.AsOf)
	require.Len(t, plan.Paths, 3)

	// Path c has changed since the dry run, so it is not validated.
	require.Equal(t, c, post("c", "C, changed."))
	done := validate(`{"validated":true,"build":"b1","reason":"read","original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00Z","dry_run":false,"as_of":4}`, http.StatusOK)
	for _, seq := range []string{"5", "6"} {
		require.Regexp(t, `"original_actor":"Ana Varga",.*"timestamp":"2025-11-30T12:00:00Z"`, string(s.get("/records/"+seq).want(http.StatusOK).body))
	}
	require.Equal(t, []wire.RefusedPath{{PathID: c, Reason: wire.ReasonPathChanged}}, done.Refused)
	require.Equal(t, []wire.ValidatedPath{
		{PathID: b, RecordSeq: 2, ContentFingerprint: plan.Paths[1].ContentFingerprint, Seq: 5},
		{PathID: a, RecordSeq: 1, ContentFingerprint: plan.Paths[2].ContentFingerprint, Seq: 6}}, done.Paths)
	var list wire.Page[wire.PathRow]
	s.get("/paths/p?build=b1&validated=true").want(http.StatusOK).json(&list)
	require.Len(t, list.Rows, 2)

	again := validate(`{"validated":true,"build":"b1","dry_run":false,"as_of":7,"paths":[{"path_id":"`+a+`"},{"path_id":"ffffffff"},{"path_id":"`+c+`","content_fingerprint":"00000000"}]}`, http.StatusOK)
	require.Empty(t, again.Paths)
	require.Equal(t, uint64(1), again.Unchanged)
	require.Equal(t, []wire.RefusedPath{{PathID: "ffffffff", Reason: wire.ReasonPathUnknown}, {PathID: c, Reason: wire.ReasonPathChanged}}, again.Refused)
	require.Equal(t, uint64(7), s.size())
	require.Len(t, validate(`{"validated":false,"build":"b1","status":"new"}`, http.StatusOK).Paths, 2)
	require.Empty(t, validate(`{"validated":false,"build":"b1","status":"modified"}`, http.StatusOK).Paths)

	for body, pointer := range map[string]string{
		`{"validated":true}`: "/build", `{"build":"b1"}`: "/validated", `{"validated":true,"build":"b1","dry_run":false}`: "/as_of",
		`{"validated":true,"build":"b1","as_of":99}`: "/as_of", `{"validated":true,"build":"b1","as_of":0}`: "/as_of",
		`{"validated":true,"build":"b1","original_actor":""}`: "/original_actor", `{"validated":true,"build":"b1","timestamp":"noon"}`: "/timestamp",
		`{"validated":true,"build":"b1","paths":[]}`: "/paths", `{"validated":true,"build":"b1","status":"gone"}`: "/status", `{"validated":true,"build":"b1","status":""}`: "/status",
		`{"validated":true,"build":"b1","status":"new","paths":[{"path_id":"a"}]}`:     "/status",
		`{"validated":true,"build":"b1","paths":[{"path_id":"a"},{"path_id":"a"}]}`:    "/paths/1/path_id",
		`{"validated":true,"build":"b1","paths":[{"content_fingerprint":"12345678"}]}`: "/paths/0/path_id",
		`{"validated":true,"build":"b1","paths":[7]}`:                                  "/paths/0",
	} {
		require.Equal(t, pointer, s.post("/paths/p/validations", body).problem(http.StatusUnprocessableEntity).Errors[0].Pointer, body)
	}
	s.post("/paths/p/validations", `{"validated":true,"build":"b2"}`).problem(http.StatusNotFound)
	s.post("/paths/q/validations", `{"validated":true,"build":"b1"}`).problem(http.StatusNotFound)
	require.Equal(t, uint64(7), s.size())
}
