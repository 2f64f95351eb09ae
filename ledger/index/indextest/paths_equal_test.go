package indextest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/paths"
	"colophon/ledger/record"
)

var (
	drawProject = rapid.SampledFrom([]string{"p", "q", ""})
	drawBuild   = rapid.SampledFrom([]string{`null`, `""`, `"1"`, `"2"`, `"3"`})
	drawRoute   = rapid.SampledFrom([]string{
		`[]`, `[""]`, `["Start"]`, colliding1, colliding2, `["Start → Day 18555"]`, triple1, triple2, triple3})
	drawDigits = rapid.SampledFrom([]string{`null`, `"00000001"`, `"00000002"`})
	drawPathID = rapid.SampledFrom([]string{"d41d8cd9", "a6122a65", "d2f2e118", "d2f2e118c8482b41", "d2f2e1184115c4dd",
		"19be8e52", "none"})
)

// drawPathEvent draws the body of an event, mostly about paths.
func drawPathEvent(t *rapid.T) string {
	project := drawProject.Draw(t, "project")
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		return plain(t, 1)
	case 1, 2:
		content := strings.Trim(strings.TrimPrefix(drawDigits.Draw(t, "validated content"), "null"), `"`)
		return validation(t, project, drawPathID.Draw(t, "path_id"), content, rapid.Bool().Draw(t, "validated"))
	}
	return fingerprint(t, project, drawBuild.Draw(t, "build"), drawRoute.Draw(t, "route"),
		drawDigits.Draw(t, "content"), drawDigits.Draw(t, "raw"))
}

// Every answer about paths agrees with the naive model, as of any size and page by page.
func TestPathsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig(vfs.NewMem())
		c.BatchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
		c.RowCacheBytes = rapid.IntRange(0, 2000).Draw(t, "kept")
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key")))
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		for range rapid.IntRange(1, 3).Draw(t, "commits") {
			log.append(rapid.SliceOfN(rapid.Custom(drawPathEvent), 1, 25).Draw(t, "bodies")...)
			log.catchUp(f)
		}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		sizes := append(rapid.SliceOfN(rapid.Uint64Range(0, log.head.Size), 2, 2).Draw(t, "sizes"), log.head.Size)
		for _, size := range sizes {
			v, err := f.View(size)
			require.NoError(t, err)
			comparePaths(t, v, naiveProjects(t, log.entries[:size]), limit)
			require.NoError(t, v.Close())
		}
		comparePathCounts(t, f, naiveProjects(t, log.entries))
	})
}

func comparePaths(t *rapid.T, v *index.View, all []*naiveProject, limit int) {
	ctx := context.Background()
	require.Equal(t, naiveProjectList(all), pages(t, limit, func(p index.Page) ([]paths.Project, []byte, error) { return paths.Projects(v, p) }))
	for _, p := range all {
		filter := drawFilter(t, p)
		require.Equal(t, p.current(filter),
			pages(t, limit, func(page index.Page) ([]paths.Row, []byte, error) {
				return paths.List(ctx, v, p.name, filter, page)
			}))
		require.Equal(t, p.buildList(),
			pages(t, limit, func(page index.Page) ([]paths.Build, []byte, error) { return paths.Builds(ctx, v, p.name, page) }))
		require.Equal(t, p.collisions(),
			pages(t, limit, func(page index.Page) ([]paths.Collision, []byte, error) {
				return paths.Collisions(ctx, v, p.name, page)
			}))
		for _, build := range p.builds {
			require.Equal(t, p.gone(build),
				pages(t, limit, func(page index.Page) ([]paths.Row, []byte, error) {
					return paths.Gone(ctx, v, p.name, build, page)
				}))
		}
		for _, path := range p.paths {
			require.Equal(t, path.versions,
				pages(t, limit, func(page index.Page) ([]paths.Version, []byte, error) {
					return paths.History(ctx, v, p.name, path.id, page)
				}))
			now, found, err := paths.Get(v, p.name, path.id)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, path.current().Path, now)
			for _, version := range path.versions {
				if version.Kind == record.PathFingerprint {
					change, err := paths.ChangeOf(ctx, v, version.Event)
					require.NoError(t, err)
					require.Equal(t, version.Change, change)
				}
			}
		}
	}
}

func drawFilter(t *rapid.T, p *naiveProject) paths.Filter {
	f := paths.Filter{Category: rapid.SampledFrom(append(paths.Categories[:], "", "")).Draw(t, "status")}
	if rapid.Bool().Draw(t, "filters validated") {
		validated := rapid.Bool().Draw(t, "is validated")
		f.Validated = &validated
	}
	if len(p.builds) > 0 && rapid.Bool().Draw(t, "filters build") {
		f.Build = rapid.SampledFrom([]*string{&p.builds[0], &p.builds[len(p.builds)-1]}).Draw(t, "of build")
	}
	return f
}

func comparePathCounts(t *rapid.T, f *index.Follower, all []*naiveProject) {
	want := make(map[paths.Category]uint64)
	collisions := uint64(0)
	for _, p := range all {
		collisions += uint64(len(p.collisions()))
		for _, path := range p.paths {
			for _, v := range path.versions {
				if v.Kind == record.PathFingerprint {
					want[v.Category]++
				}
			}
		}
	}
	counted := countsOf(f)
	for _, category := range paths.Categories {
		require.Equal(t, want[category], counted[counters.SeriesOf(counters.PathChangesTotal, string(category))], category)
	}
	require.Equal(t, collisions, counted[counters.SeriesOf(counters.CollisionsTotal)])
}

func TestRealPathsByBuild(t *testing.T) {
	shared := filepath.Join("..", "..", "..", "..", "shared", "data")
	text, err := os.ReadFile(filepath.Join(shared, "story-paths.expected.json"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	type build struct {
		Build                    string
		New, Modified, Unchanged uint64
	}
	var want []build
	require.NoError(t, json.Unmarshal(text, &want))
	f, log := foldBodies(t, realBodies(t, "story-paths")...)
	var got []build
	for _, b := range pages(t, 3, func(p index.Page) ([]paths.Build, []byte, error) {
		return paths.Builds(t.Context(), viewOf(t, f, log.head.Size), "NaNoWriMo2025", p)
	}) {
		got = append(got, build{b.Name, b.New, b.Modified, b.Unchanged})
	}
	require.Equal(t, want, got)
}
