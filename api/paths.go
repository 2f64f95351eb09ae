package api

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

// Queries about paths (spec: Path categories; Path id collisions; Builds). Paths have no
// state.

// pathRow is the state of a path after its latest record and its validations.
type pathRow struct {
	provenSeq
	PathID                string         `json:"path_id"`
	Route                 []string       `json:"route"`
	Category              paths.Category `json:"category"`
	Validated             bool           `json:"validated"`
	LinksChanged          bool           `json:"links_changed"`
	ContentFingerprint    *string        `json:"content_fingerprint"`
	RawContentFingerprint *string        `json:"raw_content_fingerprint"`
	Build                 *string        `json:"build"`
	Time                  string         `json:"time"`
}

// pathVersion is the state of a path after one event. Validations have neither route nor
// build.
type pathVersion struct {
	provenSeq
	Kind                  record.Kind    `json:"kind"`
	Time                  string         `json:"time"`
	RecordSeq             uint64         `json:"record_seq"`
	Category              paths.Category `json:"category"`
	Validated             bool           `json:"validated"`
	LinksChanged          bool           `json:"links_changed"`
	ContentFingerprint    *string        `json:"content_fingerprint"`
	RawContentFingerprint *string        `json:"raw_content_fingerprint"`
	Route                 []string       `json:"route,omitempty"`
	Build                 *string        `json:"build,omitempty"`
	Reason                string         `json:"reason,omitempty"`
}

// paths answers the paths of a project in their latest state.
func (s *Server) paths(c echo.Context) error {
	var status, validated string
	var filter paths.Filter
	q, err := s.openQuery(c, withPages|withProofs, text("status", &status), text("validated", &validated), optionalText("build", &filter.Build))
	if err != nil {
		return err
	}
	defer q.close()
	if filter.Category, err = oneOf("status", status, "", paths.Categories[:]); err != nil {
		return err
	}
	if filter.Validated, err = optionalFlag("validated", validated); err != nil {
		return err
	}
	project, err := element(c, "project")
	if err != nil {
		return err
	}
	found, next, err := paths.List(q.ctx, q.view, project, filter, q.page)
	if err != nil {
		return pathsNotFound(err, "no project of that name has paths, or it has no such build")
	}
	return answerRows(q, pathRows(found), next)
}

// pathHistory answers the versions of a path.
func (s *Server) pathHistory(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	project, pathID, err := elements(c, "project", "path_id")
	if err != nil {
		return err
	}
	found, next, err := paths.History(q.ctx, q.view, project, pathID, q.page)
	if err != nil {
		return pathsNotFound(err, "no path of that project has that path_id")
	}
	rows := make([]pathVersion, len(found))
	for i, v := range found {
		rows[i] = pathVersion{
			provenSeq: provenSeq{Seq: v.Event}, Kind: v.Kind, Time: v.Time.Format(record.TimeLayout), RecordSeq: v.Seq,
			Category: v.Category, Validated: v.Validated, LinksChanged: v.LinksChanged,
			ContentFingerprint: nullable(v.ContentFingerprint), RawContentFingerprint: nullable(v.RawContentFingerprint),
			Route: v.Route, Build: v.Build, Reason: v.Reason,
		}
	}
	return answerRows(q, rows, next)
}

// goneFromBuild answers the paths of the previous build that a build lacks.
func (s *Server) goneFromBuild(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	project, build, err := elements(c, "project", "build")
	if err != nil {
		return err
	}
	found, next, err := paths.Gone(q.ctx, q.view, project, build, q.page)
	if err != nil {
		return pathsNotFound(err, "that project has no such build")
	}
	return answerRows(q, pathRows(found), next)
}

func pathRows(found []paths.Row) []pathRow {
	rows := make([]pathRow, len(found))
	for i, p := range found {
		rows[i] = pathRow{
			provenSeq: provenSeq{Seq: p.Seq}, PathID: p.PathID, Route: p.Route,
			Category: p.Category, Validated: p.Validated, LinksChanged: p.LinksChanged,
			ContentFingerprint: nullable(p.ContentFingerprint), RawContentFingerprint: nullable(p.RawContentFingerprint),
			Build: p.Build, Time: p.Time.Format(record.TimeLayout),
		}
	}
	return rows
}

// nullable returns nil for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// projectRow is a project that has paths. The seq of a project is that of its first record.
// The same holds for a build.
type projectRow struct {
	provenSeq
	Project    string `json:"project"`
	Paths      uint64 `json:"paths"`
	Builds     uint64 `json:"builds"`
	Collisions uint64 `json:"collisions"`
}

// projects answers the projects that have paths.
func (s *Server) projects(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	found, next, err := paths.Projects(q.view, q.page)
	if err != nil {
		return err
	}
	rows := make([]projectRow, len(found))
	for i, p := range found {
		rows[i] = projectRow{provenSeq{Seq: p.Seq}, p.Name, p.Paths, p.Builds, p.Collisions}
	}
	return answerRows(q, rows, next)
}

type buildRow struct {
	provenSeq
	Build     string `json:"build"`
	Time      string `json:"time"`
	New       uint64 `json:"new"`
	Modified  uint64 `json:"modified"`
	Unchanged uint64 `json:"unchanged"`
	Gone      uint64 `json:"gone"`
	Paths     uint64 `json:"paths"`
}

// builds answers the builds of a project in order.
func (s *Server) builds(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	project, err := element(c, "project")
	if err != nil {
		return err
	}
	found, next, err := paths.Builds(q.ctx, q.view, project, q.page)
	if err != nil {
		return pathsNotFound(err, "no project of that name has paths")
	}
	rows := make([]buildRow, len(found))
	for i, b := range found {
		rows[i] = buildRow{provenSeq{Seq: b.Seq}, b.Name, b.Time.Format(record.TimeLayout), b.New, b.Modified, b.Unchanged, b.Gone, b.Paths}
	}
	return answerRows(q, rows, next)
}

// collisionRow is a path whose path_id another path held already. Its seq is that of its first
// record.
type collisionRow struct {
	provenSeq
	PathID string       `json:"path_id"`
	Route  []string     `json:"route"`
	Holder holderOfPath `json:"holder"`
}

type holderOfPath struct {
	Seq    uint64   `json:"seq"`
	PathID string   `json:"path_id"`
	Route  []string `json:"route"`
}

// collisions answers the paths of a project whose path_id another path held already.
func (s *Server) collisions(c echo.Context) error {
	q, err := s.openQuery(c, withPages|withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	project, err := element(c, "project")
	if err != nil {
		return err
	}
	found, next, err := paths.Collisions(q.ctx, q.view, project, q.page)
	if err != nil {
		return pathsNotFound(err, "no project of that name has paths")
	}
	rows := make([]collisionRow, len(found))
	for i, x := range found {
		rows[i] = collisionRow{provenSeq{Seq: x.Seq}, x.PathID, x.Route, holderOfPath{x.HolderSeq, x.Held, x.HolderRoute}}
	}
	return answerRows(q, rows, next)
}

// pathsNotFound turns paths.ErrNotFound into a 404 with that detail. It returns other errors
// unchanged.
func pathsNotFound(err error, detail string) error {
	if errors.Is(err, paths.ErrNotFound) {
		return fault(http.StatusNotFound, "%s; GET /paths of the ledger lists projects", detail)
	}
	return err
}

// elements returns two elements of the path.
func elements(c echo.Context, first, second string) (a, b string, err error) {
	if a, err = element(c, first); err != nil {
		return "", "", err
	}
	b, err = element(c, second)
	return a, b, err
}

// optionalText is a parameter that sets to only if the request has it. An empty value is
// refused.
func optionalText(name string, to **string) parameter {
	return parameter{name: name, set: func(value string) error {
		*to = &value
		return nil
	}}
}

// optionalFlag parses true or false. It returns nil for an empty value.
func optionalFlag(name, value string) (*bool, error) {
	if value == "" {
		return nil, nil
	}
	flag, err := choice(name, value, "false", "true")
	return &flag, err
}
