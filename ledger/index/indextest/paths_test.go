package indextest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/counters"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/record"
)

// Routes with colliding path_ids: d2f2e118 for the first two, and 19be8e52 for the other three.
const (
	colliding1 = `["Start","Day 18555"]`
	colliding2 = `["Start","Day 42885"]`
	triple1    = `["Start","Day 1717590"]`
	triple2    = `["Start","Day 4479765"]`
	triple3    = `["Start","Day 7746910"]`
)

// fingerprint returns the body of a path fingerprint event. build, route, content, and raw are JSON.
func fingerprint(t tester, project, build, route, content, raw string) string {
	t.Helper()
	return fingerprintOf(t, project, build, "", route, content, raw)
}

// fingerprintOf is like fingerprint, but adds the members in more, each of which must be followed
// by a comma.
func fingerprintOf(t tester, project, build, more, route, content, raw string) string {
	t.Helper()
	return posted(t, record.KindPathFingerprint, fmt.Sprintf(
		`{"project":%q,"build":%s,%s"route":%s,"content_fingerprint":%s,"raw_content_fingerprint":%s}`,
		project, build, more, route, content, raw))
}

// validation returns the body of an event that validates a path or, if validated is false, ends its
// validation. If content is empty, the content fingerprint is null.
func validation(t tester, project, pathID, content string, validated bool) string {
	t.Helper()
	return validationOf(t, record.LatestPathRecord{Project: project, PathID: pathID, ContentFingerprint: content, RecordSeq: 1}, validated)
}

func validationOf(t tester, path record.LatestPathRecord, validated bool) string {
	t.Helper()
	r, err := record.ParseValidationRequest(fmt.Appendf(nil, `{"validated":%t,"reason":"because"}`, validated))
	require.NoError(t, err)
	return string(r.ActionFor(path).AppendBodyPrefix(nil, poster))
}

type currentPath = record.LatestPathRecord

// foldBodies returns a follower that has folded the event that creates the ledger and then the
// given bodies. It also returns the journal that contains them.
func foldBodies(t *testing.T, bodies ...string) (*index.Follower, *journal) {
	t.Helper()
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	log.append(bodies...)
	s := openTest(t, testConfig(vfs.NewMem()))
	log.index = s
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	f := follow(t, s, log)
	log.catchUp(f)
	return f, log
}

// viewOf returns a view as of the given size. The view is closed when the test ends.
func viewOf(t *testing.T, f *index.Follower, size uint64) *index.View {
	t.Helper()
	v, err := f.View(size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

// pages runs query for one page after another and returns the rows of all pages. It fails the test
// if a page has more than limit rows.
func pages[R any](t tester, limit int, query func(index.PageRequest) ([]R, []byte, error)) []R {
	t.Helper()
	var all []R
	p := index.PageRequest{Limit: limit}
	for {
		rows, next, err := query(p)
		require.NoError(t, err)
		require.LessOrEqual(t, len(rows), limit)
		all = append(all, rows...)
		if next == nil {
			return all
		}
		p.After = next
	}
}

// Without branches, a build is compared with the previous build, and a record without a build
// is compared with the path's latest record. Unchanged records inherit validation. Other
// records reset it, unless they repeat a record of their build.
func TestPathsAreComparedWithTheirBase(t *testing.T) {
	const id = "a6122a65" // path_id of the route "Start"
	route := `["Start"]`
	f, _ := foldBodies(t,
		fingerprint(t, "p", `"1"`, route, `"00000001"`, `"0000000a"`),  // event 1
		validation(t, "p", id, "00000001", true),                       // event 2
		fingerprint(t, "p", `"2"`, route, `"00000001"`, `"0000000b"`),  // event 3: only links differ
		fingerprint(t, "q", `"2"`, route, `"00000001"`, `"0000000b"`),  // event 4: another project
		fingerprint(t, "p", `null`, route, `"00000002"`, `"0000000b"`), // event 5
		validation(t, "p", id, "00000001", true),                       // event 6: names earlier content
		fingerprint(t, "p", `"3"`, route, `null`, `null`),              // event 7: a null fingerprint is a value
		validation(t, "p", id, "", true),                               // event 8
		fingerprint(t, "p", `"3"`, route, `null`, `"0000000c"`),        // event 9
		validation(t, "p", id, "", false),                              // event 10
		validation(t, "p", "a6122a66", "", true),                       // event 11: there is no such path
	)
	change := func(category paths.Category, validated, links bool) paths.Status {
		return paths.Status{PathID: id, Category: category, Validated: validated, OnlyLinksChanged: links}
	}
	for seq, want := range map[uint64]paths.Status{
		1: change(paths.CategoryNew, false, false), 3: change(paths.CategoryUnchanged, true, true), 4: change(paths.CategoryNew, false, false),
		5: change(paths.CategoryModified, false, false), 7: change(paths.CategoryModified, false, false), 9: change(paths.CategoryModified, true, false),
	} {
		got, err := paths.StatusOf(t.Context(), viewOf(t, f, 12), seq)
		require.NoError(t, err)
		require.Equal(t, want, got, "event %d", seq)
	}
	v := viewOf(t, f, 9)
	for _, seq := range []uint64{0, 2, 9} {
		_, err := paths.StatusOf(t.Context(), v, seq)
		require.ErrorIs(t, err, paths.ErrNotFound, "event %d", seq)
	}
	path, found, err := paths.Get(v, "p", id, nil)
	require.NoError(t, err)
	require.True(t, found)
	three := "3"
	require.Equal(t, paths.Path{Status: change(paths.CategoryModified, true, false), Seq: 7, Build: &three, HashVersion: "adr-004"}, path)
	_, found, err = paths.Get(v, "r", id, nil)
	require.NoError(t, err)
	require.False(t, found)

	counted := countsOf(f)
	for i, category := range paths.Categories {
		require.Equal(t, [...]uint64{2, 3, 1, 0}[i], counted[counters.SeriesOf(counters.MetricPathChanges, string(category))])
	}
}

// Build main is validated, a pull request changes the text, and main continues with its own
// text. The pull request does not change the validation of main.
func TestPullRequestLeavesMainValidated(t *testing.T) {
	const id = "a6122a65" // path_id of the route "Start"
	route := `["Start"]`
	record := func(build, more, content string) string {
		return fingerprintOf(t, "p", `"`+build+`"`, more, route, `"`+content+`"`, `null`)
	}
	validate := func(build, content string, seq uint64, validated bool) string {
		return validationOf(t, currentPath{Project: "p", PathID: id, Build: &build, ContentFingerprint: content, RecordSeq: seq}, validated)
	}
	f, log := foldBodies(t,
		record("main1", `"branch":"main",`, "00000001"),                // event 1
		record("main2", `"branch":"main",`, "00000001"),                // event 2
		validate("main1", "00000001", 1, true),                         // event 3: also applies to main2
		record("pr7", `"branch":"pr-7","base":"main2",`, "00000002"),   // event 4
		record("main3", `"branch":"main",`, "00000001"),                // event 5
		validate("pr7", "00000002", 4, true),                           // event 6: does not apply to main
		record("pr7", `"branch":"pr-7",`, "00000002"),                  // event 7: the build repeats its record
		record("main4", `"branch":"main",`, "00000002"),                // event 8: repeats the text of the pull request
		record("main5", `"branch":"main",`, "00000001"),                // event 9: returns to text that was validated before
		record("pr7b", `"branch":"pr-7",`, "00000002"),                 // event 10: its base is pr7
		record("main5", `"branch":"main","base":"main3",`, "00000001"), // event 11: contradicts the base in main5's first record
		record("first", `"base":"unknown",`, "00000001"),               // event 12
		validate("main3", "00000002", 5, true),                         // event 13: main3 has different content
		validate("nowhere", "00000001", 5, true),                       // event 14
		validate("main1", "00000001", 1, false),                        // event 15: also ends the validation of main2 and main3
	)
	change := func(category paths.Category, validated bool, before uint64) paths.Status {
		return paths.Status{PathID: id, Category: category, Validated: validated, EarlierValidationSeq: before}
	}
	contradicting := change(paths.CategoryModified, false, 3)
	contradicting.HasOtherBase = true
	v := viewOf(t, f, log.head.Size)
	for seq, want := range map[uint64]paths.Status{
		2: change(paths.CategoryUnchanged, false, 0), 4: change(paths.CategoryModified, false, 0), 5: change(paths.CategoryUnchanged, true, 0),
		7: change(paths.CategoryModified, true, 0), 8: change(paths.CategoryModified, false, 0), 9: change(paths.CategoryModified, false, 3),
		10: change(paths.CategoryUnchanged, true, 0), 11: contradicting, 12: change(paths.CategoryNew, false, 0),
	} {
		got, err := paths.StatusOf(t.Context(), v, seq)
		require.NoError(t, err)
		require.Equal(t, want, got, "event %d", seq)
	}
	for size, want := range map[uint64]string{3: "", 13: "main1 main2 main3 pr7 pr7b", 15: "main1 main2 main3 pr7 pr7b", 16: "pr7 pr7b"} {
		var validated []string
		v := viewOf(t, f, size)
		for _, build := range []string{"main1", "main2", "main3", "main4", "main5", "pr7", "pr7b", "first"} {
			path, found, err := paths.Get(v, "p", id, &build)
			require.NoError(t, err)
			if found && path.Validated {
				validated = append(validated, build)
			}
		}
		require.Equal(t, want, strings.Join(validated, " "), "size %d", size)
	}
	builds, _, err := paths.ListBuilds(t.Context(), v, "p", index.PageRequest{Limit: 10})
	require.NoError(t, err)
	var bases []string
	for _, b := range builds {
		switch {
		case b.BaseBuild != nil:
			bases = append(bases, b.Name+"<"+*b.BaseBuild)
		case b.UnknownBase != nil:
			bases = append(bases, b.Name+"?"+*b.UnknownBase)
		default:
			bases = append(bases, b.Name)
		}
	}
	require.Equal(t, []string{"main1", "main2<main1", "pr7<main2", "main3<main2", "main4<main3", "main5<main4", "pr7b<pr7", "first?unknown"}, bases)
	require.Equal(t, uint64(1), builds[5].OtherBaseRecords)
}

// If a project moves to another hash_version, paths are compared by the digests of their
// texts. An unchanged path keeps its validation.
func TestHashVersionChanges(t *testing.T) {
	const id = "a6122a65" // path_id of the route "Start"
	record := func(build, version, text, content string) string {
		more := ""
		if version != "" {
			more += `"hash_version":"` + version + `",`
		}
		if text != "" {
			more += `"content":"` + text + `",`
		}
		return fingerprintOf(t, "p", `"`+build+`"`, more, `["Start"]`, content, `null`)
	}
	const door, wall = "A door.", "A wall."
	f, log := foldBodies(t,
		record("1", "", door, `null`), // event 1
		validationOf(t, currentPath{Project: "p", PathID: id, ContentFingerprint: "f361f6eb", RecordSeq: 1}, true), // event 2
		record("2", "adr-005", door, `"0123456789abcdef"`),                                                         // event 3: only the version changes
		record("3", "adr-005", "[x](y)"+door, `"0123456789abcdef"`),                                                // event 4: within a version, the fingerprint decides
		record("4", "adr-005", wall, `"00000001"`),                                                                 // event 5
		record("5", "adr-006", door, `"00000001"`),                                                                 // event 6: the same digits as event 5, but another version
		record("6", "adr-006", "", `"00000001"`),                                                                   // event 7: has only a fingerprint
		record("7", "", "", `"00000001"`),                                                                          // event 8: neither this record nor the previous one has a text
		record("8", "", door, `null`),                                                                              // event 9: the first text again, under the first version
		record("9", "adr-005", "", `"0123456789abcdef"`),                                                           // event 10: has no text
	)
	change := func(category paths.Category, validated bool, before uint64) paths.Status {
		return paths.Status{PathID: id, Category: category, Validated: validated, EarlierValidationSeq: before}
	}
	v := viewOf(t, f, log.head.Size)
	for seq, want := range map[uint64]paths.Status{
		3: change(paths.CategoryUnchanged, true, 0), 4: change(paths.CategoryUnchanged, true, 0), 5: change(paths.CategoryModified, false, 0),
		6: change(paths.CategoryModified, false, 2), 7: change(paths.CategoryUnchanged, false, 0), 8: change(paths.CategoryIncomparable, false, 0),
		9: change(paths.CategoryModified, false, 2), 10: change(paths.CategoryIncomparable, false, 0),
	} {
		got, err := paths.StatusOf(t.Context(), v, seq)
		require.NoError(t, err)
		require.Equal(t, want, got, "event %d", seq)
	}
	builds, _, err := paths.ListBuilds(t.Context(), v, "p", index.PageRequest{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"adr-004", "adr-005", "adr-006"}, []string{builds[0].HashVersion, builds[1].HashVersion, builds[4].HashVersion})
	require.Equal(t, uint64(1), builds[6].IncomparableRecords)
	differences, _, err := paths.Compare(t.Context(), v, paths.ComparisonQuery{Project: "p", BuildA: "1", BuildB: "6"}, index.PageRequest{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, paths.CategoryIncomparable, differences[0].Category)
}

// If two routes have the same path_id, the route recorded later gets a longer path_id. The records
// of that route can be found by either path_id.
func TestPathIDsCollide(t *testing.T) {
	f, log := foldBodies(t,
		fingerprint(t, "p", `null`, colliding1, `null`, `null`),                  // event 1
		fingerprint(t, "p", `null`, colliding2, `null`, `null`),                  // event 2
		fingerprint(t, "q", `null`, colliding2, `null`, `null`),                  // event 3: another project
		fingerprint(t, "p", `null`, `["Start → Day 42885"]`, `null`, `null`),     // event 4: the same route
		fingerprint(t, "p", `null`, strings.ToUpper(colliding2), `null`, `null`), // event 5: another route
	)
	v := viewOf(t, f, log.head.Size)
	collisions := pages(t, 1, func(p index.PageRequest) ([]paths.Collision, []byte, error) {
		return paths.ListCollisions(t.Context(), v, "p", p)
	})
	require.Equal(t, []paths.Collision{{
		Seq: 2, PathID: "d2f2e1184115c4dd", Route: []string{"Start", "Day 42885"},
		HolderPathID: "d2f2e118", HolderSeq: 1, HolderRoute: []string{"Start", "Day 18555"},
	}}, collisions)
	require.Equal(t, uint64(1), countsOf(f)[counters.SeriesOf(counters.MetricPathIDCollisions)])
	for id, want := range map[string][]uint64{"d2f2e118": {4, 3, 2, 1}, "d2f2e1184115c4dd": {4, 2}} {
		var found []uint64
		posting := rowstore.IdentityOf([]byte("path_id"), []byte(id))
		for r, err := range v.VersionsNewestFirst(records.PostingsDimension, posting[:], v.Size()) {
			require.NoError(t, err)
			found = append(found, r.Seq)
		}
		require.Equal(t, want, found, id)
	}
}

// GonePaths lists the paths that are in the previous build but not in the given one, even if
// records of the previous build arrive late.
func TestBuildsKeepAndLose(t *testing.T) {
	a, b, c := `["a"]`, `["b"]`, `["c"]`
	record := func(build, route string) string { return fingerprint(t, "p", build, route, `null`, `null`) }
	f, log := foldBodies(t,
		record(`"1"`, a), record(`"1"`, b), // events 1, 2
		record(`null`, c), // event 3: has no build
		record(`"2"`, a),  // event 4
		record(`"2"`, a),  // event 5: repeats event 4
		record(`"3"`, c),  // event 6
		record(`"2"`, c),  // event 7: arrives late; build 3 still has the path
		record(`"1"`, c),  // event 8: arrives late; build 2 still has the path
	)
	for size, want := range map[uint64][]uint64{5: {0, 1}, 7: {0, 1, 1}, 8: {0, 1, 1}, 9: {0, 1, 1}} {
		v := viewOf(t, f, size)
		var gone []uint64
		for _, build := range pages(t, 1, func(p index.PageRequest) ([]paths.Build, []byte, error) {
			return paths.ListBuilds(t.Context(), v, "p", p)
		}) {
			gone = append(gone, build.GonePaths)
			lost := pages(t, 1, func(p index.PageRequest) ([]paths.ListedPath, []byte, error) {
				return paths.ListGonePaths(t.Context(), v, "p", build.Name, p)
			})
			require.Len(t, lost, int(build.GonePaths))
		}
		require.Equal(t, want, gone, "size %d", size)
	}
	builds, next, err := paths.ListBuilds(t.Context(), viewOf(t, f, log.head.Size), "p", index.PageRequest{Limit: 3})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Equal(t, []uint64{3, 2, 1}, []uint64{builds[0].Paths, builds[1].Paths, builds[2].Paths})
	require.Equal(t, []uint64{1, 2}, []uint64{builds[1].NewRecords, builds[1].UnchangedRecords}, "records, not paths")
}

func TestUnknownPaths(t *testing.T) {
	f, _ := foldBodies(t, fingerprint(t, "p", `"1"`, `["a"]`, `null`, `null`), fingerprint(t, "q", `"2"`, `["a"]`, `null`, `null`))
	v, ctx, p := viewOf(t, f, 2), t.Context(), index.PageRequest{Limit: 1}
	other := "2"
	for name, query := range map[string]func() error{
		"project": func() error { _, _, err := paths.List(ctx, v, "q", paths.Filter{}, p); return err },
		"build": func() error {
			_, _, err := paths.List(ctx, v, "p", paths.Filter{Build: &other}, p)
			return err
		},
		"project's builds":    func() error { _, _, err := paths.ListBuilds(ctx, v, "q", p); return err },
		"project's conflicts": func() error { _, _, err := paths.ListCollisions(ctx, v, "q", p); return err },
		"build's":             func() error { _, _, err := paths.ListGonePaths(ctx, v, "p", "2", p); return err },
		"history":             func() error { _, _, err := paths.History(ctx, v, "p", "00000000", p); return err },
	} {
		require.ErrorIs(t, query(), paths.ErrNotFound, name)
	}
	for _, after := range [][]byte{{}, {1}, rowstore.AppendSeq(nil, 2), rowstore.AppendSeq(nil, 1<<63)} {
		p := index.PageRequest{Limit: 1, After: after}
		_, _, err := paths.List(ctx, v, "p", paths.Filter{}, p)
		require.ErrorIs(t, err, index.ErrInvalidPosition)
		_, _, err = paths.ListBuilds(ctx, v, "p", p)
		require.ErrorIs(t, err, index.ErrInvalidPosition)
		_, _, err = paths.History(ctx, v, "p", "0cc175b9", p)
		require.ErrorIs(t, err, index.ErrInvalidPosition)
	}
}

// A page of paths reads only a few keys per requested row, even if no path matches the filter.
func TestPagesOfPathsAreBounded(t *testing.T) {
	var bodies []string
	for i := range 400 {
		bodies = append(bodies, fingerprint(t, "p", `"1"`, fmt.Sprintf(`["%d"]`, i), `null`, `null`))
	}
	f, log := foldBodies(t, bodies...)
	v := viewOf(t, f, log.head.Size)
	rows, next, err := paths.List(t.Context(), v, "p", paths.Filter{Category: paths.CategoryModified}, index.PageRequest{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, rows)
	require.NotNil(t, next)
	require.Less(t, v.KeysRead(), 30)
	require.Empty(t, pages(t, 1, func(p index.PageRequest) ([]paths.ListedPath, []byte, error) {
		return paths.List(t.Context(), v, "p", paths.Filter{Category: paths.CategoryModified}, p)
	}))
	v = viewOf(t, f, log.head.Size)
	rows, next, err = paths.List(t.Context(), v, "p", paths.Filter{}, index.PageRequest{Limit: 400})
	require.NoError(t, err)
	require.Len(t, rows, 400)
	require.Nil(t, next)
	require.LessOrEqual(t, v.KeysRead(), 5*400)
}
