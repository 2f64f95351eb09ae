package formats

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record/pyjson"
)

func parsed(t *testing.T, text string) pyjson.Value {
	t.Helper()
	d := new(pyjson.Document)
	require.NoError(t, d.Parse([]byte(text)), text)
	return d.Root()
}

// only converts a native value that must yield exactly one Conversion. It returns that Conversion
// and the parsed record.
func only(t *testing.T, f Format, native string, o Options) (Conversion, pyjson.Value) {
	t.Helper()
	conversions, err := f.Convert([]byte(native), o)
	require.NoError(t, err)
	require.Len(t, conversions, 1)
	if conversions[0].Record == nil {
		return conversions[0], pyjson.Value{}
	}
	return conversions[0], parsed(t, string(conversions[0].Record))
}

// outcomeOf returns the outcome for the member at the given pointer, followed by a description of
// where the member went.
func outcomeOf(t *testing.T, e Conversion, pointer string) string {
	t.Helper()
	for _, m := range e.MemberOutcomes {
		if m.Pointer == pointer {
			return string(m.Outcome) + " " + m.Detail
		}
	}
	require.Fail(t, "the member is not accounted for", pointer)
	return ""
}

func TestTimes(t *testing.T) {
	york, err := ParseZone("America/New_York")
	require.NoError(t, err)
	for native, want := range map[string]string{
		`"2025-11-12T18:53:35.403015"`:       "2025-11-12T18:53:35.403015-05:00 zoned",
		`"2025-07-12 18:53:35"`:              "2025-07-12T18:53:35-04:00 zoned", // the zone's offset differs in summer
		`"2025-11-12T18:53:35.403015+00:00"`: "2025-11-12T18:53:35.403015+00:00",
		`"2025-11-12 18:53:35+01:00"`:        "2025-11-12T18:53:35+01:00",
		`"2025-11-12T18:53:35Z"`:             "2025-11-12T18:53:35Z",
		`1763000000`:                         "2025-11-13T02:13:20Z",
		`1763000000.25`:                      "2025-11-13T02:13:20.25Z",
		`0`:                                  "1970-01-01T00:00:00Z",
	} {
		text, zoned, ok := parseTime(parsed(t, native), york)
		require.True(t, ok, native)
		if zoned {
			text += " zoned"
		}
		require.Equal(t, want, text, native)
	}
	for _, native := range []string{`"2025-11-12"`, `"2025-13-12T18:53:35"`, `"soon"`, `""`, `-1`, `1e300`, `null`, `[]`, `"2025-11-12T18:53:35.1234567890"`} {
		_, _, ok := parseTime(parsed(t, native), york)
		require.False(t, ok, native)
	}
	_, _, ok := parseTime(parsed(t, `"2025-11-12T18:53:35"`), nil)
	require.False(t, ok, "the zone of a time is never guessed")

	for _, name := range []string{"UTC", "+01:00", "-05:30", "Europe/Berlin"} {
		_, err := ParseZone(name)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"", "Local", "local", "Nowhere", "+1", "../etc/passwd"} {
		_, err := ParseZone(name)
		require.ErrorContains(t, err, "is not a time zone; use UTC", name)
	}
}

func TestTimeWithoutZone(t *testing.T) {
	const native = `{"model":"m","timestamp":"2025-11-12T18:53:35"}`
	o := *berlin
	e, r := only(t, AxisLabLog, native, o)
	require.Equal(t, "2025-11-12T18:53:35+01:00", string(r.Member("timestamp").Text()))
	require.Equal(t, "Europe/Berlin", string(r.Member("labels").Member("imported_zone").Text()))
	require.Equal(t, "taken as timestamp in the stated zone", outcomeOf(t, e, "/timestamp"))
	o.DefaultZone = nil
	again, r := only(t, AxisLabLog, native, o)
	require.False(t, r.Member("timestamp").IsGiven())
	require.Equal(t, "2025-11-12T18:53:35", string(r.Member("labels").Member("timestamp").Text()))
	require.Contains(t, outcomeOf(t, again, "/timestamp"), "specify a zone")
	require.Equal(t, e.Key, again.Key, "the key depends only on the native value")
}

func TestTextsOfSaves(t *testing.T) {
	for _, text := range []string{"", "Plain.", "  two\n\nlines \n", "```text\nfence\n```", "<!-- a comment -->\n\nof its own", "\n", "# Output\n\nnot a heading"} {
		inner, ok := fenced([]byte("# System Prompt\n\n<!-- x -->\n\n```text\n" + text + "\n```\n"))
		require.True(t, ok)
		require.Equal(t, text, string(inner))
		for _, comments := range []string{"<!-- one -->\n", "<!-- one -->\n<!-- two -->\n"} {
			inner, ok = body([]byte("# Output\n\n" + comments + "\n" + text + "\n"))
			require.True(t, ok, text)
			require.Equal(t, text, string(inner))
		}
	}
	e, r := only(t, AxisLabSave, `{"metadata.json":{"model":"m","manifest":{"files":{"output.md":{"sha256":"`+strings.Repeat("0", 64)+`"}}}},"output.md":"edited by hand"}`, *berlin)
	require.False(t, r.Member("output").IsGiven())
	require.Equal(t, "edited by hand", string(r.Member("labels").Member("output.md").Text()))
	require.Contains(t, outcomeOf(t, e, "/metadata.json/manifest/files/output.md"), "the SHA-256 of the file does not match the manifest")
}

func TestCitationsThatDisagree(t *testing.T) {
	const one, two = `{"source_id":"s","text":"One.","weight":1,"section":null}`, `{"source_id":"z","text":"Two.","weight":0.5}`
	e, r := only(t, CitationsFile, `{"all_citations":[`+one+`],"by_section":{"unknown":[`+one+`],"Chorus":[`+two+`,7]},"total_count":1,"source_ids":["s"]}`, *berlin)
	require.Equal(t, 2, r.Member("citations").Len())
	require.Contains(t, string(r.Member("citations").Raw()), `{"section":"Chorus","source_id":"z","text":"Two.","weight":0.5}`)
	require.Contains(t, outcomeOf(t, e, "/by_section/unknown/0"), "the citation is also in all_citations")
	require.Equal(t, "kept as label by_section/*/*", outcomeOf(t, e, "/by_section/Chorus/1"))
	require.Equal(t, "kept as label total_count: the value does not match the citations", outcomeOf(t, e, "/total_count"))
	require.Equal(t, "kept as label source_ids: the value does not match the citations", outcomeOf(t, e, "/source_ids"))
	require.NoError(t, e.Check(berlin.Limits))

	o := *berlin
	o.Subject = ""
	e, _ = only(t, CitationsFile, `{"all_citations":[]}`, o)
	require.Contains(t, e.FailureReason, "specify one with \"subject\"")
}

func TestNamesOfCachedPaths(t *testing.T) {
	for native, want := range map[string]string{
		`{"a6122a65":{"route":"Start"}}`:                           "a6122a65", // the path_id of the route
		`{"00000000":{"route":"Start"}}`:                           "",
		`{"00000000":{"route":"Start","route_hash":"a6122a65"}}`:   "a6122a65",
		`{"a6122a65":{"route":["Start"],"route_hash":"ffffffff"}}`: "ffffffff", // an incorrect claim is kept
	} {
		_, r := only(t, ValidationCache, native, *berlin)
		require.Equal(t, want, string(r.Member("path_id").Text()), native)
		require.Equal(t, want == "" || strings.Contains(native, `"00000000"`), r.Member("labels").Member("cache_key").IsGiven(), native)
	}
}

// A change to members that do not become part of the record changes neither the record's key nor
// its bytes.
func TestUnrelatedChangesKeepTheKey(t *testing.T) {
	for _, c := range []struct {
		format Format
		a, b   string
		same   bool
	}{
		{AxisLabLog, `{"model":"m","a":1}`, `{ "a": 1, "model": "\u006d" }`, true},
		{AxisLabLog, `{"model":"m","a":1}`, `{"model":"m","a":2}`, false},
		{ProvidenceCache, `{"dag":{"root":"r","nodes":[{}]}}`, `{"dag":"{\"nodes\":[{}],\"root\":\"r\"}","hit_count":7,"state":"stale","state_reason":"r","x":null}`, true},
		{ProvidenceCache, `{"dag":{"root":"r","nodes":[{}]}}`, `{"dag":{"root":"s","nodes":[{}]}}`, false},
		{ValidationCache, `{"a":{"route":"A","validated":false}}`, `{"a":{"route":"A","validated":true,"validated_at":"2025-11-12T18:53:35","validated_by":"ann"}}`, true},
		{ValidationCache, `{"a":{"route":"A"}}`, `{"b":{"route":"A"}}`, false},
	} {
		a, recordA := only(t, c.format, c.a, *berlin)
		b, recordB := only(t, c.format, c.b, *berlin)
		require.Equal(t, c.same, a.Key == b.Key, c.b)
		if c.same && c.format != AxisLabLog {
			require.Equal(t, canonical(recordA), canonical(recordB))
		}
	}
	other := *berlin
	other.Project = "another"
	a, _ := only(t, ValidationCache, `{"a":{"route":"A"}}`, *berlin)
	b, _ := only(t, ValidationCache, `{"a":{"route":"A"}}`, other)
	require.NotEqual(t, a.Key, b.Key)
}

func TestLabelsAreBounded(t *testing.T) {
	var members []string
	for i := range 40 {
		members = append(members, `"m`+strings.Repeat("x", i)+`":1`)
	}
	e, r := only(t, AxisLabLog, `{"model":"m",`+strings.Join(members, ",")+`,"timestamp":"2025-11-12T18:53:35"}`, *berlin)
	require.Equal(t, berlin.Limits.MaxLabels, r.Member("labels").Len())
	require.Equal(t, 9, r.Member("usage").Member("imported").Len(), "members beyond the bound become content")
	require.Contains(t, e.Check(berlin.Limits).Error(), "/payload: is required")
}

// Only IPC records can keep arrays and objects as content. In records of other kinds, an array or
// object becomes one label that contains its JSON. If the JSON is too long, each part becomes a
// label of its own.
func TestArraysAndObjectsAsLabels(t *testing.T) {
	long := strings.Repeat("long ", 40)
	const dag = `"dag":{"root":"r","nodes":[]},`
	for native, want := range map[string]map[string]string{
		`{` + dag + `"unverified_quotes":["q", "r"]}`:       {"unverified_quotes": `["q","r"]`},
		`{` + dag + `"unverified_quotes":"[\"q\", \"r\"]"}`: {"unverified_quotes": `["q","r"]`}, // a list that a database stores as JSON text
		`{` + dag + `"unverified_quotes":[]}`:               {"unverified_quotes": `[]`},
		`{` + dag + `"unverified_quotes":["q","` + long + `",{"page":1,"at":null}]}`: {
			"unverified_quotes/0": "q", "unverified_quotes/2": `{"at":null,"page":1}`},
		`{` + dag + `"extra":{"a":{"note":"` + long + `","b":2}}}`: {"extra/a/b": "2"},
	} {
		e, r := only(t, ProvidenceCache, native, *berlin)
		requireAccounted(t, []byte(native), []Conversion{e})
		labels := make(map[string]string)
		for name, value := range r.Member("labels").Members() {
			labels[string(name.Text())] = string(value.Text())
		}
		require.Equal(t, want, labels, native)
	}
	e, _ := only(t, ProvidenceCache, `{`+dag+`"extra":{"a":{"note":"`+long+`"}}}`, *berlin)
	require.Contains(t, outcomeOf(t, e, "/extra/a/note"), "left the value does not fit in a label")
}

func TestMembersAreBounded(t *testing.T) {
	o := *berlin
	o.MaxMembers = 10
	for native, whole := range map[string]bool{
		`{"all_citations":[` + strings.Repeat(`{"source_id":"s"},`, 9) + `{"source_id":"s"}]}`:       true,
		`{"all_citations":[` + strings.Repeat(`{"source_id":"s"},`, 10) + `{"source_id":"s"}]}`:      false,
		`{"by_section":{"` + strings.Repeat("s", 10*meanNote) + `":[{"source_id":"s","weight":1}]}}`: false,
	} {
		e, _ := only(t, CitationsFile, native, o)
		require.LessOrEqual(t, len(e.MemberOutcomes), o.MaxMembers)
		require.Equal(t, whole, e.Record != nil)
		if !whole {
			require.Contains(t, e.FailureReason, "more than 10 members; use colophon import")
		}
	}
}

// An imported validation or state change contains the actor and the time that the other system
// recorded. Records have no field for an actor, so an actor in a record becomes a label.
func TestOriginalActors(t *testing.T) {
	const dag = `"dag":{"root":"r","nodes":[]},`
	for _, c := range []struct {
		format        Format
		native        string
		actor, at     string // original_actor and timestamp of the change
		reason        string
		accounted, as string
	}{
		{AxisLabLog, `{"model":"m","operator":"ann"}`, "", "", "", "/operator", "kept as label operator"},
		{AxisLabSave, `{"metadata.json":{"model":"m","operator":"ann"}}`, "", "", "", "/metadata.json/operator", "kept as label operator"},
		{CitationsFile, `{"all_citations":[],"cited_by":"ann"}`, "", "", "", "/cited_by", "kept as label cited_by"},
		{ValidationCache, `{"a6122a65":{"route":"Start","validated":true,"validated_by":"ann","validated_at":"2025-11-12T18:53:35"}}`,
			"ann", "2025-11-12T18:53:35+01:00", "imported: validated", "/a6122a65/validated_by", "taken as original_actor of the validation"},
		{ValidationCache, `{"a6122a65":{"route":"Start","validated":true,"validated_by":"ann","validated_at":"in May"}}`,
			"ann", "", "imported: validated at in May", "/a6122a65/validated_at", "taken as reason of the validation: the value is not a time with a zone"},
		{ValidationCache, `{"a6122a65":{"route":"Start","validated":true,"validated_by":7}}`,
			"", "", "imported: validated", "/a6122a65/validated_by", "left the value cannot be recorded in a validation of the path"},
		{ProvidenceCache, `{` + dag + `"state":"stale","state_reason":"Gone.","state_changed_by":"ann","state_changed_at":1763000000}`,
			"ann", "2025-11-13T02:13:20Z", "Gone.", "/state_changed_by", "taken as original_actor of the state change"},
		{ValidationCache, `{"a6122a65":{"route":"Start","validated":false}}`, "", "", "", "/a6122a65/validated",
			"taken as no validation: a new path is not validated; an earlier validation is not withdrawn"},
		{ProvidenceCache, `{` + dag + `"state":"live"}`, "", "", "", "/state",
			"taken as state: a new record is live; if the ledger already has the record, its state is not changed"},
		{ProvidenceCache, `{` + dag + `"state":"stale","state_changed_at":"in May"}`, "", "", "imported as stale", "/state_changed_at",
			"left the member can change while the run stays the same, so it is not part of the record"},
	} {
		e, _ := only(t, c.format, c.native, *berlin)
		require.Equal(t, c.as, outcomeOf(t, e, c.accounted), c.native)
		if c.reason == "" {
			require.Nil(t, e.Change, c.native)
			continue
		}
		require.Equal(t, []string{c.actor, c.at, c.reason}, []string{e.Change.OriginalActor, e.Change.Timestamp, e.Change.Reason}, c.native)
	}
	// The actor of a validation is part of the validation's key.
	a, _ := only(t, ValidationCache, `{"a":{"route":"A","validated":true,"validated_by":"ann"}}`, *berlin)
	b, _ := only(t, ValidationCache, `{"a":{"route":"A","validated":true,"validated_by":"bob"}}`, *berlin)
	require.Equal(t, a.Key, b.Key)
	require.NotEqual(t, a.Change.Key, b.Change.Key)
}

// A fingerprint computed under another hash_version becomes a claim. If there is no hash_version, a
// fingerprint of the wrong length becomes a label.
func TestHashVersionOfCachedPaths(t *testing.T) {
	e, r := only(t, ValidationCache, `{"a6122a65":{"route":"Start","hash_version":"adr-005","content_fingerprint":"0123456789abcdef"}}`, *berlin)
	require.Equal(t, "0123456789abcdef", string(r.Member("content_fingerprint").Text()))
	require.Equal(t, "taken as hash_version", outcomeOf(t, e, "/a6122a65/hash_version"))
	require.NoError(t, e.Check(berlin.Limits))
	e, _ = only(t, ValidationCache, `{"a6122a65":{"route":"Start","content_fingerprint":"0123456789abcdef"}}`, *berlin)
	require.Equal(t, "kept as label content_fingerprint", outcomeOf(t, e, "/a6122a65/content_fingerprint"))
	e, _ = only(t, ValidationCache, `{"a6122a65":{"route":"Start","hash_version":"adr-005"}}`, *berlin)
	require.ErrorContains(t, e.Check(berlin.Limits), "content_fingerprint: is required")
}

// In an IPC record, a long text that has no field of its own becomes content. Records of other
// kinds have no place for it, so it is left out and the Conversion says so.
func TestLongMembers(t *testing.T) {
	long := `"remark":"` + strings.Repeat("word ", 1000) + `"`
	const left = "left the value does not fit in a label"
	for _, c := range []struct {
		format              Format
		native, pointer, as string
	}{
		{AxisLabLog, `{"model":"m",` + long + `}`, "/remark", "kept as content usage/imported/remark"},
		{AxisLabSave, `{"metadata.json":{"model":"m",` + long + `}}`, "/metadata.json/remark", "kept as content usage/imported/remark"},
		{CitationsFile, `{"all_citations":[],` + long + `}`, "/remark", left},
		{CitationsFile, `{"all_citations":[{"source_id":"s","text":"t","weight":1,` + long + `}]}`, "/all_citations/0/remark", left},
		{ValidationCache, `{"a6122a65":{"route":"Start",` + long + `}}`, "/a6122a65/remark", left},
		{ProvidenceCache, `{"dag":{"root":"r","nodes":[]},` + long + `}`, "/remark", left},
		{ProvidenceCache, `{"dag":{"root":"r","nodes":[],` + long + `}}`, "/dag/remark", left},
	} {
		e, _ := only(t, c.format, c.native, *berlin)
		requireAccounted(t, []byte(c.native), []Conversion{e})
		require.Contains(t, outcomeOf(t, e, c.pointer), c.as, c.native[:40])
	}
}
