package query

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FindQuestion finds every question by its path, and decodes the parameters in the path.
func TestFind(t *testing.T) {
	for _, q := range Questions() {
		path, want := q.Path, Parameters{}
		for element := range strings.SplitSeq(q.Path, "/") {
			if name, is := strings.CutPrefix(element, ":"); is {
				path, want[name] = strings.Replace(path, element, "a%2F%3Ab", 1), "a/:b"
			}
		}
		found, elements, ok := FindQuestion(path)
		require.True(t, ok, q.Path)
		require.Equal(t, q.Path, found.Path)
		require.Equal(t, want, elements)
	}
	// A fixed element takes precedence over a parameter.
	found, elements, ok := FindQuestion("/paths/p/builds")
	require.True(t, ok)
	require.Equal(t, "/paths/:project/builds", found.Path)
	require.Equal(t, Parameters{"project": "p"}, elements)
	_, elements, ok = FindQuestion("/paths//builds")
	require.True(t, ok)
	require.Equal(t, Parameters{"project": ""}, elements)
	for _, path := range []string{"", "/", "/paths/", "/drift", "/drift/groups/model", "/drift/groups/model/a/b", "/producers/%zz", "/nothing"} {
		_, _, ok := FindQuestion(path)
		require.False(t, ok, path)
	}
}

// Parse refuses unknown and malformed parameters with an error that explains why.
func TestParseRefuses(t *testing.T) {
	for of, want := range map[string]string{
		"/producers?limit=11":               "limit: must be a number from 1 to 10",
		"/producers?limit=1&limit=1":        "limit: must not be given more than once",
		"/producers?a=%zz":                  `the query is malformed: invalid URL escape "%zz"`,
		"/producers?%ff=1":                  "the query has a parameter whose name is not valid UTF-8",
		"/producers?cursor=%ff":             "cursor: must be valid UTF-8",
		"/producers?cursor=":                "cursor: must not be empty",
		"/producers?cursor=*":               "cursor: must be the value of next in an earlier response",
		"/producers?cursor=AA":              "cursor: belongs to a different query",
		"/producers?cursor=Bg&as_of=7":      "as_of: does not match the tree size in the cursor (6); omit this parameter",
		"/producers?cursor=CQ":              "as_of: is beyond the head: the ledger has 8 events",
		"/producers?state=any":              "state: unknown query parameter; the known parameters are after, as_of, cursor, limit, proofs",
		"/producers?as_of=0":                "as_of: must be at least 1: every ledger has at least one event",
		"/producers?as_of=9":                "as_of: is beyond the head: the ledger has 8 events",
		"/producers?after=8":                "after: there is no event 8: the ledger has 8 events",
		"/producers?after=01":               "after: must be a number from 0 to 2^64-1 in plain decimal",
		"/producers?proofs=yes":             "proofs: must be false or true",
		"/drift/timeline":                   "input: is required to select the runs, unless input_hash, ipc_id, system_prompt_hash, output_hash, model, ollama_build_hash or label:<name> is given",
		"/drift/timeline?model=&ipc_id":     "ipc_id: must not be empty",
		"/drift/timeline?ipc_id=x":          "ipc_id: must be 8 to 64 lower-case hexadecimal digits",
		"/drift/timeline?model=a&label:b=c": "model: cannot be combined with label:b; use only one of them",
		"/drift/timeline?x=1&label:b=c": "x: unknown query parameter; the known parameters are after, as_of, cursor, input, input_hash, ipc_id, label:<name>, label:b, limit, model, names, " +
			"ollama_build_hash, output_hash, proofs, seeded, state, system_prompt_hash, text",
		"/drift/groups": "by: must be ipc_id, input, input_hash, system_prompt_hash, output_hash, model, ollama_build_hash or label:<name>",
		"/drift/groups?by=model&sort=runs&as_of=1":   `as_of: cannot be combined with "sort", because rankings exist only at the latest tree size`,
		"/drift/groups?by=model&sort=no":             `sort: must be "recent", "runs", "flips", or "stability"`,
		"/drift/groups?by=model&sort=runs&state=any": `state: must be "live" if the parameter "sort" is given, because only live runs are ranked`,
		"/drift/groups?by=model&sort=runs&cursor=Bg": "cursor: belongs to a different query",
		"/drift/groups/no/x":                         "by: must be ipc_id, input, input_hash, system_prompt_hash, output_hash, model, ollama_build_hash or label:<name>",
		"/drift/groups/model/x?outputs_cursor=*":     "outputs_cursor: must be the value of outputs_next in an earlier response",
		"/drift/attribution?a=1":                     "b: is required: the seq of an IPC record",
		"/citation-sets/drift":                       "subject: is required: the subject of citation sets",
		"/citation-sets/drift?subject=":              "subject: must not be empty",
		"/citation-sets/stale?source_id=":            "source_id: must not be empty",
		"/citation-sets/by-chunk/x":                  `hash: must be 8 to 64 lower-case hexadecimal digits, with or without "sha256:" before them`,
		"/sources/" + strings.Repeat("x", 1025):      "source_id: is 1025 bytes long, but at most 1024 are allowed",
		"/paths/p?status=no":                         "status: must be one of new, modified, unchanged, incomparable",
		"/paths/p?validated=no":                      "validated: must be false or true",
		"/paths/p?build=":                            "build: must not be empty",
	} {
		path, rawQuery, _ := strings.Cut(of, "?")
		q, elements, ok := FindQuestion(path)
		require.True(t, ok, of)
		_, err := q.Parse(elements, rawQuery, 8, 10)
		require.EqualError(t, err, want, of)
		require.IsType(t, new(Error), err)
	}
}

// Parse determines the number of events that the index must cover, and the tree size of the answer.
// A size of 0 means the size of the head.
func TestParseSetsSizes(t *testing.T) {
	for of, want := range map[string]struct{ size, needs uint64 }{
		"/producers":                                    {0, 1},
		"/producers?after=4":                            {0, 5},
		"/producers?as_of=4":                            {4, 4},
		"/producers?as_of=4&after=5":                    {4, 6},
		"/producers?cursor=Bg":                          {6, 6},
		"/drift/attribution?a=3&b=5":                    {0, 6},
		"/drift/attribution?a=3&b=99":                   {0, 4},
		"/drift/groups?by=model&min_runs=2":             {0, 1},
		"/drift/groups?by=model&min_runs=2&cursor=AAAA": {0, 1},
	} {
		path, rawQuery, _ := strings.Cut(of, "?")
		q, elements, ok := FindQuestion(path)
		require.True(t, ok, of)
		r, err := q.Parse(elements, rawQuery, 8, 10)
		require.NoError(t, err, of)
		require.Equal(t, want, struct{ size, needs uint64 }{r.TreeSize, r.MinIndexSize}, of)
	}
}
