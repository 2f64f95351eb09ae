package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"colophon/client/wire"
)

// PathsService provides the queries about paths through branching stories, and stores validations
// of these paths.
type PathsService struct{ ledger *Ledger }

// Projects lists the projects that have paths: GET /paths.
func (s *PathsService) Projects(o *QueryOptions) *PagedList[wire.ProjectRow] {
	return list[wire.ProjectRow](s.ledger, "/paths", o.values())
}

// PathFilter selects paths through a branching story. A nil pointer selects all.
type PathFilter struct {
	QueryOptions
	Status    string // category of the latest record: new, modified, unchanged, or incomparable
	Validated *bool  // true selects only paths that are validated, false only paths that are not; nil selects both
	Build     string // name of a build; "" means the latest record of each path, in any build
}

// List lists the paths of a project: GET /paths/{project}.
func (s *PathsService) List(project string, f *PathFilter) *PagedList[wire.PathRow] {
	if f == nil {
		f = new(PathFilter)
	}
	q := f.QueryOptions.values()
	setText(q, "status", f.Status)
	setText(q, "build", f.Build)
	if f.Validated != nil {
		q.Set("validated", map[bool]string{false: "false", true: "true"}[*f.Validated])
	}
	return list[wire.PathRow](s.ledger, join("paths", project), q)
}

// History lists the versions of a path: GET /paths/{project}/{path_id}. Each record or validation of
// the path creates a version.
func (s *PathsService) History(project, pathID string, o *QueryOptions) *PagedList[wire.PathVersion] {
	return list[wire.PathVersion](s.ledger, join("paths", project, pathID), o.values())
}

// Builds lists the builds of a project: GET /paths/{project}/builds.
func (s *PathsService) Builds(project string, o *QueryOptions) *PagedList[wire.BuildRow] {
	return list[wire.BuildRow](s.ledger, join("paths", project, "builds"), o.values())
}

// GonePaths lists the paths that exist in the base build of a build but not in the build itself:
// GET /paths/{project}/builds/{build}/gone.
func (s *PathsService) GonePaths(project, build string, o *QueryOptions) *PagedList[wire.PathRow] {
	return list[wire.PathRow](s.ledger, join("paths", project, "builds", build, "gone"), o.values())
}

// CompareBuilds compares the paths of build b with those of build a: GET /paths/{project}/compare.
// status selects paths by the result: new, modified, unchanged, incomparable, gone, or "" for all.
func (s *PathsService) CompareBuilds(project, a, b, status string, o *QueryOptions) *PagedList[wire.PathDifference] {
	q := o.values()
	setText(q, "a", a)
	setText(q, "b", b)
	setText(q, "status", status)
	return list[wire.PathDifference](s.ledger, join("paths", project, "compare"), q)
}

// Collisions lists the paths whose usual path_id was already taken: GET /paths/{project}/collisions.
func (s *PathsService) Collisions(project string, o *QueryOptions) *PagedList[wire.PathCollision] {
	return list[wire.PathCollision](s.ledger, join("paths", project, "collisions"), o.values())
}

// Validate records whether the content of a path is correct: PUT /paths/{project}/{path_id}/validation.
func (s *PathsService) Validate(ctx context.Context, project, pathID string, v wire.PathValidation, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodPut, path: join("paths", project, pathID, "validation"), body: v, kind: wire.KindPathValidated}.with(o))
}

// ValidateMany validates many paths of a build: POST /paths/{project}/validations. In a dry run, it only
// reports what it would do. The client does not retry this call, and only ctx limits its duration.
func (s *PathsService) ValidateMany(ctx context.Context, project string, r wire.PathValidationsRequest) (*wire.PathValidationsResult, error) {
	return exchange[wire.PathValidationsResult](ctx, s.ledger.client, request{method: http.MethodPost, path: s.ledger.path + join("paths", project, "validations"), slow: true}, r)
}

// ProducersService provides the queries about producers and the records that they have delivered.
type ProducersService struct{ ledger *Ledger }

// List lists the producers: GET /producers.
func (s *ProducersService) List(o *QueryOptions) *PagedList[wire.ProducerRow] {
	return list[wire.ProducerRow](s.ledger, "/producers", o.values())
}

// Producer gives access to one producer, which numbers the records that it posts. Creating a
// Producer sends no request.
type Producer struct {
	client *Client
	path   string
	query  url.Values
}

// Producer returns the producer with the given id.
func (s *ProducersService) Producer(id string, o *QueryOptions) *Producer {
	return &Producer{client: s.ledger.client, path: s.ledger.path + join("producers", id), query: o.values()}
}

// Get reads the producer and the first page of its gaps and duplicates: GET /producers/{id}.
func (p *Producer) Get(ctx context.Context) (*wire.ProducerAnswer, error) { return p.page(ctx, "") }

// Gaps iterates over the ranges of missing sequence numbers, in ascending order.
func (p *Producer) Gaps(ctx context.Context) iter.Seq2[*wire.ProducerGap, error] {
	return rows(p.pages(ctx), func(page *wire.ProducerAnswer) []wire.ProducerGap { return page.Gaps })
}

// Duplicates iterates over the records that repeat a sequence number, newest first.
func (p *Producer) Duplicates(ctx context.Context) iter.Seq2[*wire.ProducerDuplicate, error] {
	return rows(p.pages(ctx), func(page *wire.ProducerAnswer) []wire.ProducerDuplicate { return page.Duplicates })
}

func (p *Producer) pages(ctx context.Context) iter.Seq2[*wire.ProducerAnswer, error] {
	return pages(func(cursor string) (*wire.ProducerAnswer, error) { return p.page(ctx, cursor) }, func(page *wire.ProducerAnswer) string { return page.Next })
}

func (p *Producer) page(ctx context.Context, cursor string) (*wire.ProducerAnswer, error) {
	return answer[wire.ProducerAnswer](ctx, p.client, get(p.path, withCursor(p.query, "cursor", cursor)))
}
