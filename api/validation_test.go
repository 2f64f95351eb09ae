package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/client/wire"
)

// storyLine posts records of one path in several builds, and validates the path.
type storyLine struct {
	*service
	id string
}

func (s *storyLine) build(build, branch, base, content string) wire.DerivedMembers {
	s.t.Helper()
	body := `{"project":"p","route":["a"],"build":"` + build + `","branch":"` + branch + `","content":"` + content + `"`
	if base != "" {
		body += `,"base":"` + base + `"`
	}
	facts := s.derived("/path-fingerprints", body+"}")
	s.id = facts.PathID
	return facts
}

func (s *storyLine) validate(body string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPut, "/paths/p/"+s.id+"/validation", body, append([]string{"Content-Type", "application/json"}, header...)...)
}

// If a build of a pull request changes a passage, the text of the main branch stays validated.
func TestPullRequestsBuildLeavesMainValidated(t *testing.T) {
	s := &storyLine{service: start(t)}
	yes, no := true, false
	s.build("main2", "main", "", "A door.")
	s.validate(`{"validated":true}`).want(http.StatusCreated)
	require.Equal(t, wire.DerivedMembers{PathID: s.id, Category: "modified", Validated: &no}, s.build("pr7", "pr-7", "main2", "A wall."))
	require.Equal(t, wire.DerivedMembers{PathID: s.id, Category: "unchanged", Validated: &yes}, s.build("main3", "main", "", "A door."))
	require.Equal(t, wire.DerivedMembers{PathID: s.id, Category: "modified", Validated: &no}, s.build("main4", "main", "", "A wall."))
	require.Equal(t, wire.DerivedMembers{PathID: s.id, Category: "modified", Validated: &no, EarlierValidationSeq: 2}, s.build("main5", "main", "", "A door."))
	require.Equal(t, wire.DerivedMembers{PathID: s.id, Category: "modified", Validated: &no, OtherBase: true, EarlierValidationSeq: 2}, s.build("main5", "main", "main2", "A door."))
	var list wire.Page[wire.ListedRecord]
	s.get("/records?flag=other_base&after=7").want(http.StatusOK).json(&list)
	require.Len(t, list.Rows, 1)
	require.Equal(t, uint64(7), list.Rows[0].Seq)
}

// A validation can name the build and the fingerprint to which it applies. It is refused if the
// build has a different fingerprint.
func TestValidationNamesItsBuild(t *testing.T) {
	s := &storyLine{service: start(t)}
	s.build("main", "main", "", "A door.")
	s.build("pr7", "pr-7", "main", "A wall.")
	var door, wall wire.Page[wire.PathRow]
	s.get("/paths/p?build=main").want(http.StatusOK).json(&door)
	s.get("/paths/p?build=pr7").want(http.StatusOK).json(&wall)
	require.Len(t, door.Rows, 1, "main still has the path after a different build has recorded it")
	fingerprint := *door.Rows[0].ContentFingerprint

	s.validate(`{"validated":true,"build":"main","content_fingerprint":"` + *wall.Rows[0].ContentFingerprint + `"}`).problem(http.StatusConflict)
	s.validate(`{"validated":true,"content_fingerprint":"` + fingerprint + `"}`).problem(http.StatusConflict)
	s.validate(`{"validated":true,"build":"main3"}`).problem(http.StatusNotFound)
	named := `{"validated":true,"build":"main","content_fingerprint":"` + fingerprint + `"}`
	a := s.validate(named, "Idempotency-Key", "k").want(http.StatusCreated)
	s.verified(a)
	var receipt struct {
		Seq   uint64
		Event struct{ Record wire.PathValidatedEvent }
	}
	a.json(&receipt)
	main := "main"
	require.Equal(t, uint64(3), receipt.Seq)
	require.Equal(t, wire.PathValidatedEvent{RequestEventMembers: receipt.Event.Record.RequestEventMembers, Project: "p", PathID: s.id, Validated: true,
		Build: &main, ContentFingerprint: &fingerprint, RecordSeq: 1, RequestMembers: []string{"build", "content_fingerprint"}}, receipt.Event.Record)

	s.get("/paths/p?build=main&validated=true&after=3").want(http.StatusOK).json(&door)
	require.Len(t, door.Rows, 1)
	s.get("/paths/p?build=pr7&validated=true").want(http.StatusOK).json(&wall)
	require.Empty(t, wall.Rows)

	// A repeated request is replayed, even if the content of the path has changed in the
	// meantime.
	s.build("main", "main", "", "A gate.")
	s.validate(named).problem(http.StatusConflict)
	require.Equal(t, "true", s.validate(named, "Idempotency-Key", "k").want(http.StatusOK).header.Get("Idempotent-Replayed"))
	s.validate(`{"validated":true,"build":"main"}`, "Idempotency-Key", "k").problem(http.StatusConflict)
}

// The members branch and base require a build, and a build cannot be its own base.
func TestBranchAndBaseNeedABuild(t *testing.T) {
	s := start(t)
	for _, c := range []struct{ members, pointer string }{
		{`"branch":"main"`, "/branch"}, {`"base":"b1"`, "/base"}, {`"build":"b1","base":"b1"`, "/base"}, {`"build":"b1","base":1`, "/base"},
	} {
		p := s.post("/path-fingerprints", `{"project":"p","route":["a"],`+c.members+`}`).problem(http.StatusUnprocessableEntity)
		require.Equal(t, c.pointer, p.Errors[0].Pointer, c.members)
	}
	s.post("/path-fingerprints", `{"project":"p","route":["a"],"branch":null,"base":null}`).want(http.StatusCreated)
}
