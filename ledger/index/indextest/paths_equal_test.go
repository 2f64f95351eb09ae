package indextest

import (
	"context"
	"encoding/json"
	"fmt"
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
	drawBuild   = rapid.SampledFrom([]string{`null`, `""`, `"1"`, `"2"`, `"3"`, `"4"`, `"5"`})
	drawRoute   = rapid.SampledFrom([]string{
		`[]`, `[""]`, `["Start"]`, colliding1, colliding2, `["Start → Day 18555"]`, triple1, triple2, triple3})
	drawBranch  = rapid.SampledFrom([]string{"", "", "main", "pr", "x"})
	drawDigits  = rapid.SampledFrom([]string{`null`, `"00000001"`, `"00000002"`})
	drawVersion = rapid.SampledFrom([]string{"", "", "5", "6"})
	drawText    = rapid.SampledFrom([]string{"", "", "", "A door.", "A  door.", "A door.[x](y)", "A wall."})
	drawPathID  = rapid.SampledFrom([]string{"d41d8cd9", "a6122a65", "d2f2e118", "d2f2e118c8482b41", "d2f2e1184115c4dd",
		"19be8e52", "none"})
)

// drawPathEvent returns the body of a random event, usually about paths, for a log that already has
// size events.
func drawPathEvent(t *rapid.T, size uint64) string {
	project := drawProject.Draw(t, "project")
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		return plain(t, 1)
	case 1, 2, 3:
		path := record.LatestPathRecord{Project: project, PathID: drawPathID.Draw(t, "path_id"), RecordSeq: rapid.Uint64Range(0, size).Draw(t, "record")}
		path.ContentFingerprint = strings.Trim(strings.TrimPrefix(drawDigits.Draw(t, "validated content"), "null"), `"`)
		if build := drawBuild.Draw(t, "validated build"); build != "null" {
			name := strings.Trim(build, `"`)
			path.Build = &name
		}
		return validationOf(t, path, rapid.Bool().Draw(t, "validated"))
	}
	build, more := drawBuild.Draw(t, "build"), ""
	if branch := drawBranch.Draw(t, "branch"); build != "null" && branch != "" {
		more = fmt.Sprintf(`"branch":%q,`, branch)
	}
	if base := drawBuild.Draw(t, "base"); build != "null" && base != build && rapid.Bool().Draw(t, "has base") {
		more += fmt.Sprintf(`"base":%s,`, base)
	}
	content := drawDigits.Draw(t, "content")
	if version := drawVersion.Draw(t, "version"); version != "" {
		more += fmt.Sprintf(`"hash_version":%q,`, version)
		if content == "null" { // a hash_version that the ledger does not compute needs a fingerprint
			content = `"0000000000000003"`
		}
	}
	if text := drawText.Draw(t, "text"); text != "" {
		more += fmt.Sprintf(`"content":%q,`, text)
	}
	return fingerprintOf(t, project, build, more, drawRoute.Draw(t, "route"), content, drawDigits.Draw(t, "raw"))
}

// Every path query agrees with the naive model, at any log size and page by page.
func TestPathsEqualModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := testConfig(vfs.NewMem())
		c.MaxBatchEvents = rapid.IntRange(1, 9).Draw(t, "batch")
		c.RowCacheBytes = rapid.IntRange(0, 2000).Draw(t, "kept")
		log := newJournal(t, "default")
		log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		s := openTest(t, c)
		defer func() { require.NoError(t, s.Close()) }()
		f := follow(t, s, log)
		for range rapid.IntRange(1, 3).Draw(t, "commits") {
			for range rapid.IntRange(1, 25).Draw(t, "bodies") {
				log.append(drawPathEvent(t, log.head.Size))
			}
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
	require.Equal(t, naiveProjectList(all), pages(t, limit, func(p index.PageRequest) ([]paths.Project, []byte, error) { return paths.ListProjects(v, p) }))
	for _, p := range all {
		filter := drawFilter(t, p)
		require.Equal(t, p.current(filter),
			pages(t, limit, func(page index.PageRequest) ([]paths.ListedPath, []byte, error) {
				return paths.List(ctx, v, p.name, filter, page)
			}))
		require.Equal(t, p.buildList(),
			pages(t, limit, func(page index.PageRequest) ([]paths.Build, []byte, error) {
				return paths.ListBuilds(ctx, v, p.name, page)
			}))
		require.Equal(t, p.collisions(),
			pages(t, limit, func(page index.PageRequest) ([]paths.Collision, []byte, error) {
				return paths.ListCollisions(ctx, v, p.name, page)
			}))
		for _, build := range p.builds {
			require.Equal(t, p.gone(build),
				pages(t, limit, func(page index.PageRequest) ([]paths.ListedPath, []byte, error) {
					return paths.ListGonePaths(ctx, v, p.name, build.name, page)
				}))
		}
		if len(p.builds) > 0 {
			a, b := rapid.SampledFrom(p.builds).Draw(t, "a"), rapid.SampledFrom(p.builds).Draw(t, "b")
			category := rapid.SampledFrom([]paths.Category{"", "", "", paths.CategoryNew, paths.CategoryModified, paths.CategoryUnchanged, paths.CategoryIncomparable, paths.CategoryGone}).Draw(t, "difference")
			require.Equal(t, p.compare(a, b, category),
				pages(t, limit, func(page index.PageRequest) ([]paths.Difference, []byte, error) {
					return paths.Compare(ctx, v, paths.ComparisonQuery{Project: p.name, BuildA: a.name, BuildB: b.name, Category: category}, page)
				}))
		}
		for _, path := range p.paths {
			history := path.history()
			require.Equal(t, history,
				pages(t, limit, func(page index.PageRequest) ([]paths.Version, []byte, error) {
					return paths.History(ctx, v, p.name, path.id, page)
				}))
			now, found, err := paths.Get(v, p.name, path.id, nil)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, path.at(path.latest(anyBuild), atHead).Path, now)
			for _, build := range p.builds {
				there, found, err := paths.Get(v, p.name, path.id, &build.name)
				require.NoError(t, err)
				latest := path.inBuild(build)
				require.Equal(t, latest != nil, found)
				if found {
					require.Equal(t, path.at(latest, atHead).Path, there)
				}
			}
			for _, version := range history {
				if version.Kind == record.KindPathFingerprint {
					change, err := paths.StatusOf(ctx, v, version.EventSeq)
					require.NoError(t, err)
					require.Equal(t, version.Status, change)
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
		f.Build = &rapid.SampledFrom(p.builds).Draw(t, "of build").name
	}
	return f
}

func comparePathCounts(t *rapid.T, f *index.Follower, all []*naiveProject) {
	want := make(map[paths.Category]uint64)
	collisions := uint64(0)
	for _, p := range all {
		collisions += uint64(len(p.collisions()))
		for _, path := range p.paths {
			for _, v := range path.records {
				want[v.Category]++
			}
		}
	}
	counted := countsOf(f)
	for _, category := range paths.Categories {
		require.Equal(t, want[category], counted[counters.SeriesOf(counters.MetricPathChanges, string(category))], category)
	}
	require.Equal(t, collisions, counted[counters.SeriesOf(counters.MetricPathIDCollisions)])
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
	for _, b := range pages(t, 3, func(p index.PageRequest) ([]paths.Build, []byte, error) {
		return paths.ListBuilds(t.Context(), viewOf(t, f, log.head.Size), "NaNoWriMo2025", p)
	}) {
		got = append(got, build{b.Name, b.NewRecords, b.ModifiedRecords, b.UnchangedRecords})
	}
	require.Equal(t, want, got)
}
